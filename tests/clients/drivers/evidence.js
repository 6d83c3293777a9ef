// Evidence: its PostgreSQL connector, which counts each query's rows and then reads them through a cursor.
const { answered, run } = require("./checks.js");
const postgres = require("@evidence-dev/postgres");

const { PGUSER, PGPASSWORD, PGHOST, PGPORT, PGDATABASE } = process.env;
const where = { user: PGUSER, password: PGPASSWORD, host: PGHOST, port: Number(PGPORT), database: PGDATABASE };

async function read(sql, batch = 100) {
  const { rows, columnTypes, expectedRowCount } = await postgres(sql, where, batch);
  const all = [];
  for await (const part of rows()) all.push(...part);
  if (all.length !== expectedRowCount) throw new Error(`${all.length} of ${expectedRowCount} rows`);
  return [all, columnTypes];
}

run("@evidence-dev/postgres", async (check) => {
  await check("answer", async () => {
    const [rows] = await read("SELECT region, count(*) AS n, avg(height) AS h FROM people GROUP BY region ORDER BY region");
    answered(rows.map((r) => [r.region, r.n, r.h]));
  });
  await check("types", async () => {
    const [, types] = await read("SELECT region, count(*) AS n FROM people GROUP BY 1");
    if (types.map((t) => t.evidenceType).join() !== "string,number") throw new Error(JSON.stringify(types));
  });
  await check("paging", async () => {
    const [rows] = await read("SELECT height, count(*) FROM people GROUP BY 1", 10);
    if (rows.length !== 50) throw new Error(String(rows.length));
  });
  await check("errors", async () => {
    const said = await read("SELECT * FROM people WHERE id = 5").then(() => "none", (error) => error.message);
    if (said === "none") throw new Error(said);
  });
  await check("catalog", async () => {
    if ((await postgres.testConnection(where)) !== true) throw new Error("connection");
    const [rows] = await read("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'");
    if (rows.length !== 3) throw new Error(JSON.stringify(rows));
  });
});
