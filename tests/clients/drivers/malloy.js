// Malloy: a model of people and their visits, queries over it.
const { Runtime } = require("@malloydata/malloy");
const { PostgresConnection } = require("@malloydata/db-postgres");
const { answered, close, run } = require("./checks.js");

const { PGUSER, PGPASSWORD, PGHOST, PGPORT, PGDATABASE } = process.env;
const where = { host: PGHOST, port: Number(PGPORT), username: PGUSER, password: PGPASSWORD, databaseName: PGDATABASE };
const town = new PostgresConnection({ name: "town", ...where });
const runtime = new Runtime({ connection: town });

const MODEL = `
source: people is town.table('public.people') extend {
  primary_key: id
  measure: n is count(), h is height.avg()
}
source: visits is town.table('public.visits') extend {
  primary_key: visit
  join_one: people with person
  measure: visits_made is count(), paid_in_all is paid.sum()
}
`;

async function rows(query) {
  return (await runtime.loadModel(MODEL).loadQuery(query).run()).data.toObject();
}

run("@malloydata/malloy", async (check) => {
  await check("answer", async () => {
    const found = await rows("run: people -> { group_by: region aggregate: n, h order_by: region }");
    answered(found.map((r) => [r.region, r.n, r.h]));
    const [joined] = await rows("run: visits -> { where: people.region = 'east' aggregate: visits_made, paid_in_all }");
    if (!(joined.visits_made > 400 && joined.paid_in_all > 4000)) throw new Error(JSON.stringify(joined));
  });
  await check("types", async () => {
    const found = await rows("run: people -> { group_by: first_of is born.year aggregate: n order_by: first_of limit: 2 }");
    if (new Date(found[0].first_of).getUTCFullYear() !== 1950) throw new Error(JSON.stringify(found));
  });
  await check("parameters", async () => {
    const [found] = await rows("run: people -> { where: region = 'east' and height < 160 aggregate: n }");
    close(found.n, 50);
  });
  await check("errors", async () => {
    const said = await rows("run: people -> { where: id = 5 select: * }").then(() => "none", (error) => String(error.message));
    if (said === "none") throw new Error(said);
  });
  await check("previews", async () => {
    const found = await rows("run: people -> { select: * limit: 5 }");
    if (found.length !== 5) throw new Error(JSON.stringify(found));
  });
  await check("catalog", async () => {
    const { schemas } = await town.fetchSchemaForTables({ people: "public.people" }, {});
    const names = Object.values(schemas)[0].fields.map((f) => f.name);
    if (!names.includes("region") || names.includes("email")) throw new Error(String(names));
  });
  await town.close();
});
