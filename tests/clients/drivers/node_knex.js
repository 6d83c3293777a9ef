// knex: a query builder, raw bindings, streams, schema inspection.
const knex = require("knex")({ client: "pg", connection: {}, pool: { min: 0, max: 4 } });
const { answered, close, refused, run } = require("./checks.js");

run("knex", async (check) => {
  const people = () => knex("people");
  await check("answer", async () => {
    const rows = await people().select("region").count("* as n").avg("height as h").groupBy("region").orderBy("region");
    answered(rows.map((r) => [r.region, r.n, r.h]));
  });
  await check("parameters", async () => {
    close((await people().where({ region: "east" }).andWhere("height", "<", 160).count("* as n").first()).n, 50);
    close((await people().whereIn("region", ["east", "west"]).count("* as n").first()).n, 500);
  });
  await check("paging", async () => {
    let count = 0;
    for await (const _ of people().select("region").count("* as n").groupBy("region").stream()) count++;
    if (count !== 4) throw new Error(`${count} rows`);
  });
  await check("transactions", async () => {
    await knex.transaction(async (trx) => {
      close((await trx("people").count("* as n").first()).n, 1000, 3);
    });
    await refused(knex.transaction((trx) => trx("people").select("*")), "42501");
  });
  await check("errors", async () => refused(people().select("email"), "42703"));
  await check("catalog", async () => {
    if (!(await knex.schema.hasTable("people")) || (await knex.schema.hasColumn("people", "email"))) throw new Error("catalog");
    const info = await knex("people").columnInfo();
    if (info.region.type !== "text") throw new Error(JSON.stringify(info));
  });
  await knex.destroy();
});
