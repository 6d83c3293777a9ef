// postgres.js: loads types at connect, pipelines, prepares everything, cursors by portals.
const postgres = require("postgres");
const { answered, close, refused, run } = require("./checks.js");

run("postgres", async (check) => {
  const sql = postgres({ max: 3, onnotice: () => {} });
  await check("answer", async () => {
    const rows = await sql`SELECT region, count(*) AS n, avg(height) AS h FROM people GROUP BY region ORDER BY region`;
    answered(rows.map((r) => [r.region, r.n, r.h]));
  });
  await check("types", async () => {
    const [row] = await sql`SELECT opened, name FROM shops ORDER BY id LIMIT 1`;
    if (!(row.opened instanceof Date) || row.name !== "Łódź") throw new Error(JSON.stringify(row));
  });
  await check("parameters", async () => {
    const height = 160;
    close((await sql`SELECT count(*) AS n FROM people WHERE region = ${"east"} AND height < ${height}`)[0].n, 50);
    close((await sql`SELECT count(*) AS n FROM people WHERE region IN ${sql(["east", "west"])}`)[0].n, 500);
  });
  await check("prepared", async () => {
    for (const region of ["east", "west", "north"]) close((await sql`SELECT count(*) AS n FROM people WHERE region = ${region}`)[0].n, 250);
  });
  await check("paging", async () => {
    let count = 0;
    await sql`SELECT region, count(*) FROM people GROUP BY region`.cursor(3, (rows) => { count += rows.length; });
    if (count !== 4) throw new Error(`${count} rows`);
  });
  await check("transactions", async () => {
    await sql.begin(async (t) => close((await t`SELECT count(*) AS n FROM people`)[0].n, 1000, 3));
    await refused(sql.begin((t) => t`SELECT * FROM people`), "42501");
  });
  await check("errors", async () => refused(sql`SELECT email FROM people`, "42703"));
  await check("copy", async () => {
    const stream = await sql`COPY (SELECT region, count(*) FROM people GROUP BY region) TO STDOUT`.readable();
    let text = "";
    for await (const piece of stream) text += piece;
    if (text.trim().split("\n").length !== 4) throw new Error(text);
  });
  await check("cancel", async () => {
    const query = sql`SELECT pg_sleep(20)`;
    setTimeout(() => query.cancel(), 300);
    await refused(query, "57014");
  });
  await check("pool", async () => {
    const all = await Promise.all([...Array(12)].map((_, i) => sql`SELECT count(*) AS n, ${i}::int AS i FROM people`));
    all.forEach((rows, i) => { close(rows[0].n, 1000, 3); if (rows[0].i !== i) throw new Error("mixed up"); });
  });
  await sql.end();
});
