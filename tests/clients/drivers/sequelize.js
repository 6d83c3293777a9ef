// Sequelize: models, grouped finders, its query interface.
const { Sequelize, DataTypes, Op, fn, col } = require("sequelize");
const { answered, close, run } = require("./checks.js");

const { PGUSER, PGPASSWORD, PGHOST, PGPORT, PGDATABASE } = process.env;
const town = new Sequelize(PGDATABASE, PGUSER, PGPASSWORD, { host: PGHOST, port: PGPORT, dialect: "postgres", logging: false });
const plain = { timestamps: false };
const Person = town.define("Person", { region: DataTypes.TEXT, height: DataTypes.DOUBLE }, { tableName: "people", ...plain });
const Visit = town.define("Visit", { visit: { type: DataTypes.BIGINT, primaryKey: true }, paid: DataTypes.DECIMAL }, { tableName: "visits", ...plain });
Visit.belongsTo(Person, { foreignKey: "person" });

async function refused(promise) {
  const code = await promise.then(() => "none", (error) => error.parent?.code ?? String(error));
  if (!["42501", "0A000"].includes(code)) throw new Error(code);
}

run("sequelize", async (check) => {
  await check("answer", async () => {
    const attributes = ["region", [fn("COUNT", col("*")), "n"], [fn("AVG", col("height")), "h"]];
    const rows = await Person.findAll({ attributes, group: ["region"], order: ["region"], raw: true });
    answered(rows.map((r) => [r.region, r.n, r.h]));
    const paid = await Visit.sum("paid", { include: [{ model: Person, attributes: [], where: { region: "east" } }] });
    if (!(paid > 4000)) throw new Error(String(paid));
  });
  await check("parameters", async () => {
    close(await Person.count({ where: { region: "east", height: { [Op.lt]: 160 } } }), 50);
    close(await Person.count({ where: { region: ["east", "west"] } }), 500);
    const [found] = await town.query("SELECT count(*) AS n FROM people WHERE region = $1", { bind: ["west"] });
    close(found[0].n, 250);
  });
  await check("transactions", async () => {
    await town.transaction(async (transaction) => close(await Person.count({ transaction }), 1000, 3));
  });
  await check("errors", async () => {
    await refused(Person.findOne({ where: { region: "east" } }));
    await refused(Person.create({ region: "x" }));
  });
  await check("previews", async () => {
    const rows = await Person.findAll({ limit: 3 });
    if (rows.length !== 3 || !rows[0].region) throw new Error(JSON.stringify(rows));
    if (!(await Visit.findOne())) throw new Error("no row");
  });
  await check("catalog", async () => {
    const known = town.getQueryInterface();
    const columns = await known.describeTable("people");
    if (!columns.id.primaryKey || columns.email || columns.region.type !== "TEXT") throw new Error(JSON.stringify(columns));
    const [key] = await known.getForeignKeyReferencesForTable("visits");
    if (key.referencedTableName !== "people" || key.columnName !== "person") throw new Error(JSON.stringify(key));
    if ((await known.showAllTables()).length !== 3) throw new Error("tables");
  });
  await town.close();
});
