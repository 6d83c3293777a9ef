// TypeORM: entities, its query builder, what it reads of the catalog.
require("reflect-metadata");
const { DataSource, EntitySchema } = require("typeorm");
const { answered, close, run } = require("./checks.js");

const Person = new EntitySchema({
  name: "Person",
  tableName: "people",
  columns: { id: { type: Number, primary: true }, region: { type: "text" }, height: { type: "float" } },
});
const Visit = new EntitySchema({
  name: "Visit",
  tableName: "visits",
  columns: { visit: { type: "bigint", primary: true }, paid: { type: "decimal" } },
  relations: { person: { type: "many-to-one", target: "Person", joinColumn: { name: "person" } } },
});
const { PGUSER, PGPASSWORD, PGHOST, PGPORT, PGDATABASE } = process.env;
const where = { host: PGHOST, port: Number(PGPORT), username: PGUSER, password: PGPASSWORD, database: PGDATABASE };
const town = new DataSource({ type: "postgres", ...where, entities: [Person, Visit], synchronize: false });

async function refused(promise) {
  const code = await promise.then(() => "none", (error) => error.code ?? String(error));
  if (!["42501", "0A000"].includes(code)) throw new Error(code);
}

run("typeorm", async (check) => {
  await town.initialize();
  const people = town.getRepository("Person");
  await check("answer", async () => {
    const rows = await people.createQueryBuilder("p").select("p.region", "region").addSelect("COUNT(*)", "n")
      .addSelect("AVG(p.height)", "h").groupBy("p.region").orderBy("p.region").getRawMany();
    answered(rows.map((r) => [r.region, r.n, r.h]));
    const joined = await town.getRepository("Visit").createQueryBuilder("v").innerJoin("v.person", "p")
      .where("p.region = :region", { region: "east" }).select("SUM(v.paid)", "paid").getRawOne();
    if (!(joined.paid > 4000)) throw new Error(JSON.stringify(joined));
  });
  await check("parameters", async () => {
    close((await people.createQueryBuilder("p").where("p.region = :r AND p.height < :h", { r: "east", h: 160 }).getCount()), 50);
    close(await people.count({ where: { region: "west" } }), 250);
    close(await people.average("height", { region: "east" }), 174);
  });
  await check("transactions", async () => {
    await town.transaction(async (manager) => close(await manager.count("Person"), 1000, 3));
  });
  await check("errors", async () => {
    await refused(people.findOneBy({ region: "east" }));
    await refused(people.insert({ id: 5000, region: "x", height: 1 }));
  });
  await check("previews", async () => {
    const rows = await people.find({ take: 3 });
    if (rows.length !== 3 || !rows[0].region) throw new Error(JSON.stringify(rows));
  });
  await check("catalog", async () => {
    const runner = town.createQueryRunner();
    const table = await runner.getTable("visits");
    if (table.primaryColumns[0].name !== "visit") throw new Error("primary key");
    if (table.foreignKeys[0].referencedTableName !== "people") throw new Error(JSON.stringify(table.foreignKeys));
    if ((await runner.getTable("people")).columns.some((c) => c.name === "email")) throw new Error("email");
    await runner.release();
  });
  await town.destroy();
});
