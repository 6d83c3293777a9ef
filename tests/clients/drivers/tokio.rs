// Rust: tokio-postgres, which prepares every query, reads rows in binary and pipelines.
use futures_util::{future, pin_mut, TryStreamExt};
use std::{env, error::Error, process::exit};
use tokio_postgres::{error::SqlState, types::Type, Client, NoTls};

const ANSWER: &str = "SELECT region, count(*) AS n, avg(height) AS h FROM people GROUP BY region ORDER BY region";
const EAST: &str = "SELECT count(*) FROM people WHERE region = $1 AND height < $2";

type Done = Result<(), Box<dyn Error>>;

fn must(what: bool, why: &str) -> Done {
    if what { Ok(()) } else { Err(why.into()) }
}

async fn connect() -> Result<Client, Box<dyn Error>> {
    let e = |name: &str| env::var(format!("PG{name}")).unwrap();
    let mut config = tokio_postgres::Config::new();
    config.host(&e("HOST")).port(e("PORT").parse()?).user(&e("USER")).password(&e("PASSWORD")).dbname(&e("DATABASE"));
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn answered(rows: &[tokio_postgres::Row]) -> Done {
    let regions: Vec<&str> = rows.iter().map(|r| r.get(0)).collect();
    must(regions == ["east", "north", "south", "west"], "regions")?;
    must(rows.iter().all(|r| (r.get::<_, i64>(1) - 250).abs() <= 3 && (r.get::<_, f64>(2) - 174.5).abs() <= 3.0), "numbers")
}

async fn answer(c: &Client) -> Done {
    answered(&c.query(ANSWER, &[]).await?)?;
    must(c.simple_query(ANSWER).await?.len() >= 5, "simple query")
}

async fn types(c: &Client) -> Done {
    let found: Vec<Type> = c.prepare(ANSWER).await?.columns().iter().map(|column| column.type_().clone()).collect();
    must(found == [Type::TEXT, Type::INT8, Type::FLOAT8], "types")
}

async fn parameters(c: &Client) -> Done {
    let row = c.query_one(EAST, &[&"east", &160f64]).await?;
    must((row.get::<_, i64>(0) - 50).abs() <= 3, "count")
}

async fn prepared(c: &Client) -> Done {
    let statement = c.prepare(EAST).await?;
    for _ in 0..3 {
        must((c.query_one(&statement, &[&"east", &160f64]).await?.get::<_, i64>(0) - 50).abs() <= 3, "count")?;
    }
    let both = future::try_join(c.query(&statement, &[&"west", &160f64]), c.query(ANSWER, &[])).await?;
    answered(&both.1)
}

async fn paging(c: &mut Client) -> Done {
    let t = c.transaction().await?;
    let portal = t.bind(ANSWER, &[]).await?;
    must(t.query_portal(&portal, 3).await?.len() == 3, "first page")?;
    must(t.query_portal(&portal, 3).await?.len() == 1, "second page")?;
    Ok(t.commit().await?)
}

async fn transactions(c: &mut Client) -> Done {
    let t = c.transaction().await?;
    answered(&t.query(ANSWER, &[]).await?)?;
    Ok(t.rollback().await?)
}

async fn errors(c: &Client) -> Done {
    let error = c.query("SELECT email FROM people", &[]).await.err().ok_or("no error")?;
    must(error.code().is_some(), "no code")?;
    let error = c.query("SELECT * FROM people", &[]).await.err().ok_or("no error")?;
    must(error.code() != Some(&SqlState::INTERNAL_ERROR), "internal error")?;
    answered(&c.query(ANSWER, &[]).await?)
}

async fn copy(c: &Client) -> Done {
    let stream = c.copy_out(&format!("COPY ({ANSWER}) TO STDOUT")).await?;
    pin_mut!(stream);
    let mut lines = 0;
    while let Some(piece) = stream.try_next().await? {
        lines += piece.iter().filter(|b| **b == b'\n').count();
    }
    must(lines == 4, "lines")
}

async fn cancel(c: &Client) -> Done {
    let token = c.cancel_token();
    let (slept, _) = future::join(c.simple_query("SELECT pg_sleep(20)"), async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        token.cancel_query(NoTls).await
    })
    .await;
    must(slept.err().and_then(|e| e.code().cloned()) == Some(SqlState::QUERY_CANCELED), "not cancelled")
}

fn told(name: &str, result: Done) -> bool {
    match result {
        Ok(()) => println!("{{\"check\": \"{name}\", \"ok\": true}}"),
        Err(why) => {
            let why: String = format!("{why:?}").chars().filter(|c| c.is_alphanumeric() || " .:_".contains(*c)).collect();
            println!("{{\"check\": \"{name}\", \"ok\": false, \"why\": \"{why}\"}}");
            return false;
        }
    }
    true
}

#[tokio::main]
async fn main() -> Done {
    println!("{{\"version\": \"{}\"}}", env!("TOKIO_POSTGRES"));
    let mut c = connect().await?;
    let mut ok = told("answer", answer(&c).await);
    ok &= told("types", types(&c).await);
    ok &= told("parameters", parameters(&c).await);
    ok &= told("prepared", prepared(&c).await);
    ok &= told("paging", paging(&mut c).await);
    ok &= told("transactions", transactions(&mut c).await);
    ok &= told("errors", errors(&c).await);
    ok &= told("copy", copy(&c).await);
    ok &= told("cancel", cancel(&c).await);
    exit(if ok { 0 } else { 1 })
}
