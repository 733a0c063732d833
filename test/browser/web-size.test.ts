/** What the simulator's page loads when it is opened: a promise in bytes, kept here. */
// needs: chromium, build
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { openPage, PAGES_FOLDER, serveStatically, settled, siteInChromium } from "./web-pages.ts";

/** Of everything: page, style, scripts, the worker and its scripts. uPlot is not among them. */
const MAX_BYTES = 45_000;

const opened = siteInChromium(serveStatically);

/** The files that opening an address asks for, by name in the built folder, gzipped. */
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

test("opening the simulator loads at most 45 kB, gzipped, worker and all", async () => {
  const loaded = await loadedBy(opened.site.url);
  const bytes = [...loaded.values()].reduce((sum, each) => sum + each, 0);
  const spelt = [...loaded].map(([name, each]) => `${String(each).padStart(6)}  ${name}`);
  process.stdout.write(`${bytes} bytes of at most ${MAX_BYTES}:\n${spelt.join("\n")}\n`);
  expect([...loaded.keys()].some((name) => name.includes("worker"))).toBe(true);
  expect(bytes, spelt.join("\n")).toBeLessThan(MAX_BYTES);
});

test("what few need is not among it: labs, worlds, the catalog, code for others", async () => {
  const names = [...(await loadedBy(opened.site.url)).keys()].join(" ");
  for (const part of ["lab-requests", "scenario-requests", "catalog", "code-dialog", "herd-"]) {
    expect(names).not.toContain(part);
  }
});

test("a page that is only opened draws without a complaint", async () => {
  const { page, complaints } = await openPage(opened.browser, opened.site.url);
  expect(complaints).toEqual([]);
  await page.context().close();
});
