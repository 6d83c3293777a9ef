// Opens every page in Chromium: light, dark, narrow, and without JavaScript. Prints one JSON line of what is wrong.
// node browser.mjs ADDRESS TOKEN CHROMIUM NODE_MODULES PATH...
import { createRequire } from "node:module";
import fs from "node:fs";

const [address, token, executablePath, modules, ...paths] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const axe = fs.readFileSync(`${modules}/axe-core/axe.min.js`, "utf8");
const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath, args: quiet });
const wrong = [];
let drawn = 0;

for (const [name, colorScheme, width, javaScriptEnabled] of [["light", "light", 1200, true], ["dark", "dark", 1200, true], ["narrow", "light", 400, true], ["without scripts", "light", 1200, false]]) {
  const context = await browser.newContext({ colorScheme, viewport: { width, height: 850 }, javaScriptEnabled });
  const page = await context.newPage();
  page.on("console", (said) => ["error", "warning"].includes(said.type()) && wrong.push([name, page.url(), said.text()]));
  page.on("pageerror", (error) => wrong.push([name, page.url(), error.message]));
  page.on("request", (request) => request.url().startsWith(address) || wrong.push([name, "somebody else is asked", request.url()]));
  await page.goto(`${address}/login`);
  await page.fill("#token", token);
  await page.click("main button");
  for (const path of paths) {
    await page.goto(address + path);
    const pictures = await page.locator("figure.chart").count();
    if (javaScriptEnabled) {
      drawn += await page.locator("figure.chart canvas").count();
      const session = await context.newCDPSession(page); // beside the pages' own policy of content, which forbids it
      await session.send("Runtime.evaluate", { expression: axe });
      const told = { expression: "axe.run().then((found) => JSON.stringify(found.violations.map((v) => [v.id, v.impact])))", awaitPromise: true, returnByValue: true };
      const found = JSON.parse((await session.send("Runtime.evaluate", told)).result.value);
      if (found.length) wrong.push([name, path, found]);
      if (await page.evaluate("document.documentElement.scrollWidth > innerWidth")) wrong.push([name, path, "wider than the window"]);
    } else if ((await page.locator("figure.chart svg").count()) !== pictures) wrong.push([name, path, "a picture is missing"]);
  }
  await context.close();
}
await browser.close();
console.log(JSON.stringify({ wrong, drawn }));
