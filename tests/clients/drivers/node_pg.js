// node-postgres with pg-cursor, pg-query-stream and pg-copy-streams.
const { Client, Pool } = require("pg");
const Cursor = require("pg-cursor");
const QueryStream = require("pg-query-stream");
const { to: copyTo } = require("pg-copy-streams");
const { ANSWER, answered, close, refused, run } = require("./checks.js");

run("pg", async (check) => {
  const client = new Client();
  await client.connect();
  await check("answer", async () => answered((await client.query({ text: ANSWER, rowMode: "array" })).rows));
  await check("types", async () => {
    const { rows } = await client.query("SELECT member, count(*) AS n, max(joined) AS j FROM people GROUP BY 1 ORDER BY 1");
    if (rows[0].member !== false || typeof rows[0].n !== "string" || !(rows[0].j instanceof Date)) throw new Error(JSON.stringify(rows));
  });
  await check("parameters", async () => {
    const sql = "SELECT count(*)::int AS n FROM people WHERE region = $1 AND height < $2";
    close((await client.query(sql, ["east", 160])).rows[0].n, 50);
    close((await client.query("SELECT count(*)::int AS n FROM people WHERE region = ANY($1)", [["east", "west"]])).rows[0].n, 500);
  });
  await check("prepared", async () => {
    for (const region of ["east", "west", "east"]) {
      const query = { name: "by-region", text: "SELECT count(*)::int AS n FROM people WHERE region = $1", values: [region] };
      close((await client.query(query)).rows[0].n, 250);
    }
  });
  await check("paging", async () => {
    const cursor = client.query(new Cursor(ANSWER));
    if ((await cursor.read(3)).length !== 3 || (await cursor.read(3)).length !== 1) throw new Error("pages");
    await cursor.close();
    let count = 0;
    for await (const _ of client.query(new QueryStream(ANSWER, [], { batchSize: 1 }))) count++;
    if (count !== 4) throw new Error(`${count} rows`);
  });
  await check("transactions", async () => {
    await client.query("BEGIN");
    await refused(client.query("SELECT * FROM people"), "42501");
    await refused(client.query("SELECT 1"), "25P02");
    await client.query("ROLLBACK");
    answered((await client.query({ text: ANSWER, rowMode: "array" })).rows);
  });
  await check("errors", async () => {
    await refused(client.query("SELECT email FROM people"), "42703");
    await refused(client.query("SELECT * FROM people WHERE region = $1", ["east"]), "42501");
    answered((await client.query({ text: ANSWER, rowMode: "array" })).rows);
  });
  await check("copy", async () => {
    let text = "";
    for await (const piece of client.query(copyTo(`COPY (${ANSWER}) TO STDOUT`))) text += piece;
    if (text.trim().split("\n").length !== 4) throw new Error(text);
  });
  await check("pool", async () => {
    const pool = new Pool({ max: 5 });
    const all = await Promise.all([...Array(20)].map((_, i) => pool.query("SELECT count(*)::int AS n, $1::int AS i FROM people", [i])));
    all.forEach((found, i) => { close(found.rows[0].n, 1000, 3); if (found.rows[0].i !== i) throw new Error("mixed up"); });
    await pool.end();
  });
  await client.end();
});
