/** Dashboard pages: the pictures of every page of the dashboard, in light, in dark and on a phone. */
import { say } from "../setup/progress.mjs";
import { startDemo } from "./demo-service.mjs";

/** @typedef {Awaited<ReturnType<typeof startDemo>>} Demo */

/** @type {readonly { name: string, options: import("playwright-core").BrowserContextOptions }[]} */
const LOOKS = [
  { name: "light", options: { colorScheme: "light", viewport: { width: 1200, height: 780 } } },
  { name: "dark", options: { colorScheme: "dark", viewport: { width: 1200, height: 780 } } },
];
const PHONE = { colorScheme: /** @type {const} */ ("dark"), viewport: { width: 390, height: 844 } };

/** The pages that are drawn on a phone as well. */
const ON_PHONE = new Set(["overview", "task"]);

/**
 * @param {import("playwright-core").Browser} browser
 * @param {string} folder
 */
export async function drawDashboard(browser, folder) {
  say("The demo service lives through an hour in two minutes.");
  const demo = await startDemo();
  try {
    for (const [name, page] of Object.entries(await pagesOf(demo))) {
      for (const look of LOOKS) await draw(browser, demo, { ...page, ...look, folder, page: name });
      if (ON_PHONE.has(name)) {
        await draw(browser, demo, { ...page, name: "phone", options: PHONE, folder, page: name });
      }
    }
  } finally {
    await demo.close();
  }
}

/** A page, and the text that says that its data is there. @param {Demo} demo */
async function pagesOf({ client }) {
  const { tasks } = await client.listTasks({ destination: "billing-api", status: "PENDING" });
  const task = tasks.reduce((best, one) => (one.attemptNumber > best.attemptNumber ? one : best));
  return {
    overview: { path: "overview", text: "Destinations in trouble" },
    tasks: { path: "tasks?status=PENDING", text: "tasks" },
    task: { path: `task?id=${task.taskId}`, text: "Next attempts" },
    destinations: { path: "destinations", text: "healthy" },
    destination: { path: "destination?name=search-index", text: "Concurrency limit" },
    "dead-letters": {
      path: "dead-letters?destination=billing-api&reason=attempts",
      text: "This redrive takes",
    },
    redrives: { path: "redrives", text: "redriven" },
    policies: { path: "policies?id=orders", text: "registered" },
    settings: { path: "settings", text: "Alerts" },
    docs: { path: "docs", text: "/retry-tasks" },
  };
}

/**
 * @typedef {object} Shot
 * @property {string} path
 * @property {string} text
 * @property {string} name of the look
 * @property {import("playwright-core").BrowserContextOptions} options
 * @property {string} folder
 * @property {string} page
 */

/**
 * @param {import("playwright-core").Browser} browser
 * @param {Demo} demo
 * @param {Shot} shot
 */
async function draw(browser, { url }, { path, text, name, options, folder, page: title }) {
  const context = await browser.newContext({ reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  await page.goto(`${url}/ui/${path}`);
  await page.getByText(text).first().waitFor();
  await page.waitForFunction(() => document.querySelector("[aria-busy=true], .loading") === null);
  await page.screenshot({ path: `${folder}/dashboard-${title}-${name}.png` });
  say(`drew docs/pictures/dashboard-${title}-${name}.png`);
  await context.close();
}
