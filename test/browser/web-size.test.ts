/** The size of what the simulator and the dashboard load when they open. */
// needs: chromium, build
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import {
  openPage,
  PAGES_FOLDER,
  serveByService,
  serveStatically,
  settled,
  siteInChromium,
} from "./web-pages.ts";

/** The sum of page, style, scripts, worker and worker scripts. uPlot is not included. */
const MAX_BYTES = 45_000;

/** The same for the overview, served by a service. */
const MAX_DASHBOARD_BYTES = 60_000;

const opened = siteInChromium(serveStatically);

/** The gzipped size of each file that an address loads, by name in the built folder. */
async function loadedBy(url: string, isDashboard = false): Promise<ReadonlyMap<string, number>> {
  const context = await opened.browser.newContext();
  const names = new Set<string>();
  context.on("request", (request) => names.add(new URL(request.url()).pathname));
  const page = await context.newPage();
  await page.goto(url);
  await page.locator("main .stage").waitFor();
  await settled(page);
  // The stream of events never ends.
  if (!isDashboard) await page.waitForLoadState("networkidle");
  await context.close();
  const folder = new URL(".", url).pathname;
  const files = [...names]
    .map((path) => path.slice(folder.length) || "index.html")
    .filter((name) => existsSync(join(PAGES_FOLDER, name)));
  return new Map(
    files.map((name) => [
      name,
      gzipSync(readFileSync(join(PAGES_FOLDER, name)), { level: 9 }).length,
    ]),
  );
}

test("opening the simulator loads at most 45 kB gzipped, including the worker", async () => {
  const loaded = await loadedBy(opened.site.url);
  const bytes = [...loaded.values()].reduce((sum, each) => sum + each, 0);
  const lines = [...loaded].map(([name, each]) => `${String(each).padStart(6)}  ${name}`);
  process.stdout.write(`${bytes} bytes of at most ${MAX_BYTES}:\n${lines.join("\n")}\n`);
  expect([...loaded.keys()].some((name) => name.includes("worker"))).toBe(true);
  expect(bytes, lines.join("\n")).toBeLessThan(MAX_BYTES);
});

test("opening the dashboard loads at most 60 kB gzipped", async () => {
  const service = await serveByService();
  const loaded = await loadedBy(new URL(".", service.url).href, true);
  await service.close();
  const bytes = [...loaded.values()].reduce((sum, each) => sum + each, 0);
  const lines = [...loaded].map(([name, each]) => `${String(each).padStart(6)}  ${name}`);
  process.stdout.write(`${bytes} bytes of at most ${MAX_DASHBOARD_BYTES}:\n${lines.join("\n")}\n`);
  expect([...loaded.keys()].some((name) => name.includes("dashboard-"))).toBe(true);
  expect(bytes, lines.join("\n")).toBeLessThan(MAX_DASHBOARD_BYTES);
});

test("the first load excludes the dashboard, labs, scenarios, the catalog and the code dialog", async () => {
  const names = [...(await loadedBy(opened.site.url)).keys()].join(" ");
  for (const part of [
    "lab-requests",
    "scenario-requests",
    "catalog",
    "code-dialog",
    "herd-",
    "dashboard",
  ]) {
    expect(names).not.toContain(part);
  }
});

test("opening the page causes no console messages", async () => {
  const { page, messages } = await openPage(opened.browser, opened.site.url);
  expect(messages).toEqual([]);
  await page.context().close();
});
