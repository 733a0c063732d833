/**
 * `npm run screenshots`: takes screenshots of every view of the simulator and every page of the
 * dashboard, in light mode, in dark mode and on a phone, with a real service and a real browser, and
 * writes them to docs/pictures. `npm run screenshots -- curve` draws one view, `-- dashboard` the pages.
 */
import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";
import { programFor } from "./needs.mjs";
import { buildPackages } from "./setup/build.mjs";
import { exitOnFailure } from "./setup/failure.mjs";
import { installPackages } from "./setup/install.mjs";
import { say } from "./setup/progress.mjs";
import { inRoot } from "./setup/root.mjs";

const FOLDER = inRoot("docs", "pictures");

/** The views. Each is shown in its initial state, except those in `LINKS`. */
const VIEWS = ["curve", "herd", "system", "labs", "advisor"];

/** @type {readonly { name: string, options: import("playwright-core").BrowserContextOptions }[]} */
const LOOKS = [
  {
    name: "light",
    options: { colorScheme: "light", viewport: { width: 1280, height: 860 } },
  },
  {
    name: "dark",
    options: { colorScheme: "dark", viewport: { width: 1280, height: 860 } },
  },
  {
    name: "phone",
    options: { colorScheme: "light", viewport: { width: 390, height: 844 } },
  },
];

await exitOnFailure(async () => {
  await installPackages();
  await buildPackages();
});
const { createRedrive } = await import("../faces/service/dist/index.js");
const { createApp, listenApp } = await import("../faces/service/dist/http/index.js");
const { encodeRun } = await import("../faces/simulator/dist/share.js");
const wanted = process.argv.slice(2);
/** Views that are shown in another state than the initial one. @type {Record<string, () => string>} */
const LINKS = { labs: labsLink, advisor: advisorLink };
const redrive = await createRedrive({ store: "memory:" });
const app = createApp(redrive, { pagesFolder: inRoot("apps", "web", "dist") });
const url = await listenApp(app, { host: "127.0.0.1", port: 0 });
const browser = await chromium.launch({
  executablePath: programFor("chromium"),
  args: ["--headless", "--no-sandbox", "--disable-gpu"],
  chromiumSandbox: false,
});
try {
  mkdirSync(FOLDER, { recursive: true });
  for (const view of VIEWS.filter((name) => wanted.length === 0 || wanted.includes(name))) {
    for (const look of LOOKS) await draw(view, look);
  }
  if (wanted.length === 0 || wanted.includes("dashboard")) {
    const { drawDashboard } = await import("./screenshots/dashboard-pages.mjs");
    await drawDashboard(browser, FOLDER);
  }
} finally {
  await browser.close();
  await app.close();
  await redrive.stop(0);
}

/** Only labs that take a second or two; all labs take a minute and a half. */
function labsLink() {
  return encodeRun({
    view: "labs",
    seed: 1,
    ids: ["occ", "budgets", "shards", "coverage", "tiers"],
  });
}

function advisorLink() {
  const clients = /** @type {const} */ ("very-many");
  return encodeRun({ view: "advisor", answers: { transient: true, idempotent: "key", clients } });
}

/**
 * @param {string} view
 * @param {(typeof LOOKS)[number]} look
 */
async function draw(view, { name, options }) {
  const context = await browser.newContext({ reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  await page.goto(`${url}/ui/simulator#${LINKS[view]?.() ?? view}`);
  await page.locator("main .stage").waitFor();
  await page.waitForLoadState("networkidle");
  // Waits for the end of all computations: a view is marked busy while its worker is.
  await page.waitForFunction(() => document.querySelector("[aria-busy=true]") === null);
  const path = `${FOLDER}/${view}-${name}.png`;
  await page.screenshot({ path });
  say(`drew docs/pictures/${view}-${name}.png`);
  if (process.env["REDRIVE_FULL"] === "1") {
    await page.screenshot({ path: `${FOLDER}/${view}-${name}-full.png`, fullPage: true });
  }
  await context.close();
}
