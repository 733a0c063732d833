/** The size of what the simulator page loads when it opens. */
// needs: chromium, build
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { openPage, PAGES_FOLDER, serveStatically, settled, siteInChromium } from "./web-pages.ts";

/** The sum of page, style, scripts, worker and worker scripts. uPlot is not included. */
const MAX_BYTES = 45_000;

const opened = siteInChromium(serveStatically);

/** The gzipped size of each file that an address loads, by name in the built folder. */
async function loadedBy(url: string): Promise<ReadonlyMap<string, number>> {
  const context = await opened.browser.newContext();
  const names = new Set<string>();
  context.on("request", (request) => names.add(new URL(request.url()).pathname));
  const page = await context.newPage();
  await page.goto(url);
  await page.locator("main .stage").waitFor();
  await settled(page);
  await page.waitForLoadState("networkidle");
  await context.close();
  const folder = new URL(".", url).pathname;
  return new Map(
    [...names].map((path) => {
      const name = path.slice(folder.length) || "index.html";
      return [name, gzipSync(readFileSync(join(PAGES_FOLDER, name)), { level: 9 }).length];
    }),
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

test("the first load excludes labs, scenarios, the catalog and the code dialog", async () => {
  const names = [...(await loadedBy(opened.site.url)).keys()].join(" ");
  for (const part of ["lab-requests", "scenario-requests", "catalog", "code-dialog", "herd-"]) {
    expect(names).not.toContain(part);
  }
});

test("opening the page causes no console messages", async () => {
  const { page, messages } = await openPage(opened.browser, opened.site.url);
  expect(messages).toEqual([]);
  await page.context().close();
});
