// The reference MCP server for PostgreSQL, spoken to as a language model's client does: JSON-RPC over its standard input.
const { spawn } = require("child_process");
const readline = require("readline");
const { answered, run } = require("./checks.js");

const { PGUSER, PGPASSWORD, PGHOST, PGPORT, PGDATABASE } = process.env;
const url = `postgresql://${PGUSER}:${encodeURIComponent(PGPASSWORD)}@${PGHOST}:${PGPORT}/${PGDATABASE}`;
const program = `${process.env.NODE_PATH}/@modelcontextprotocol/server-postgres/dist/index.js`;
const server = spawn("node", [program, url], { stdio: ["pipe", "pipe", "inherit"] });
const waiting = new Map();
let last = 0;
readline.createInterface({ input: server.stdout }).on("line", (line) => {
  const reply = JSON.parse(line);
  waiting.get(reply.id)?.(reply);
});

function ask(method, params) {
  const id = ++last;
  server.stdin.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
  return new Promise((resolve) => waiting.set(id, resolve));
}

async function query(sql) {
  const reply = await ask("tools/call", { name: "query", arguments: { sql } });
  if (reply.error) throw new Error(reply.error.message);
  return JSON.parse(reply.result.content[0].text);
}

run("@modelcontextprotocol/server-postgres", async (check) => {
  const clientInfo = { name: "dpproxy", version: "1" };
  await ask("initialize", { protocolVersion: "2024-11-05", capabilities: {}, clientInfo });
  await check("answer", async () => {
    const rows = await query("SELECT region, count(*) AS n, avg(height) AS h FROM people GROUP BY region ORDER BY region");
    answered(rows.map((r) => [r.region, r.n, r.h]));
  });
  await check("errors", async () => {
    const said = await query("SELECT * FROM people WHERE id = 5").then(() => "", (error) => error.message);
    if (!said.includes("rows of single persons")) throw new Error(said);
  });
  await check("previews", async () => {
    const rows = await query("SELECT * FROM people LIMIT 5");
    if (rows.length !== 5) throw new Error(JSON.stringify(rows));
  });
  await check("catalog", async () => {
    const { resources } = (await ask("resources/list", {})).result;
    const people = resources.find((r) => r.uri.includes("/people/"));
    if (resources.length !== 3 || !people) throw new Error(JSON.stringify(resources));
    const told = (await ask("resources/read", { uri: people.uri })).result.contents[0].text;
    if (!told.includes("region") || told.includes("email")) throw new Error(told);
  });
  server.kill();
});
