// What the scripts for node share: one line of JSON a check.
const ANSWER = "SELECT region, count(*) AS n, avg(height) AS h FROM people GROUP BY region ORDER BY region";
const REGIONS = [["east", 250, 174], ["north", 250, 175], ["south", 250, 174], ["west", 250, 175]];

function close(one, other, tolerance = 1.5) {
  if (!(Math.abs(Number(one) - other) <= tolerance)) throw new Error(`${one} is not ${other}`);
}

function answered(rows) {
  if (rows.length !== REGIONS.length) throw new Error(`${rows.length} rows`);
  rows.forEach((row, i) => {
    if (row[0] !== REGIONS[i][0]) throw new Error(JSON.stringify(row));
    close(row[1], REGIONS[i][1]);
    close(row[2], REGIONS[i][2]);
  });
}

async function refused(promise, code) {
  try {
    await promise;
  } catch (error) {
    if (error.code !== code) throw new Error(`${error.code}: ${error.message}`);
    return;
  }
  throw new Error("no error");
}

function run(name, body) {
  const folder = process.env.NODE_PATH;
  const version = JSON.parse(require("fs").readFileSync(`${folder}/${name}/package.json`)).version;
  console.log(JSON.stringify({ version }));
  let failed = false;
  const check = async (what, action) => {
    try {
      await action();
      console.log(JSON.stringify({ check: what, ok: true }));
    } catch (error) {
      failed = true;
      console.log(JSON.stringify({ check: what, ok: false, why: String(error.stack) }));
    }
  };
  body(check).then(() => process.exit(failed ? 1 : 0), (error) => { console.error(error); process.exit(2); });
}

module.exports = { ANSWER, answered, close, refused, run };
