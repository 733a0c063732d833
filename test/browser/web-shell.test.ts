/** The shell of the pages in a real browser: serving, content policy, keyboard, light and dark. */
// needs: chromium, build
import { encodeRun } from "@redrive/simulator/share";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { launchChromium } from "../servers/chromium.ts";
import {
  openPage,
  type Site,
  seriousFindings,
  serveByService,
  serveStatically,
  settled,
} from "./web-pages.ts";

const VIEWS = ["Curve", "Herd", "System", "Labs", "Advisor"];

let browser: Browser;
let service: Site;
let folder: Site;

beforeAll(async () => {
  browser = await launchChromium();
  service = await serveByService();
  folder = await serveStatically();
});

afterAll(async () => {
  await browser.close();
  await service.close();
  await folder.close();
});

describe("every view", () => {
  const cases = VIEWS.flatMap((view) => ["light", "dark"].map((scheme) => [view, scheme] as const));

  test.each(cases)(
    "%s opens in %s without console messages, and axe finds nothing serious",
    async (view, scheme) => {
      const { page, messages } = await openPage(browser, `${service.url}#${view.toLowerCase()}`, {
        colorScheme: scheme as "light" | "dark",
      });
      expect(await page.locator("nav a[aria-current=page]", { hasText: view }).count()).toBe(1);
      expect(await seriousFindings(page)).toEqual([]);
      expect(messages).toEqual([]);
      await page.context().close();
    },
  );
});

/**
 * The styles of each class, if all its elements in the view have the same. A minHeight that an element
 * sets inline follows the data, for example the number of labs, so only style sheet values count.
 */
async function looksOf(page: Page): Promise<ReadonlyMap<string, string>> {
  await settled(page);
  const drawn = await page.evaluate(() =>
    [...document.querySelectorAll("main [class]")].map((element) => {
      const style = getComputedStyle(element);
      const inherited = element.parentElement?.closest("[class]")?.getAttribute("class");
      const name = `${inherited} > ${element.tagName}.${element.getAttribute("class")}`;
      const { color, display, fontSize, fontWeight, padding, strokeWidth } = style;
      const isInline = (element as HTMLElement | SVGElement).style.minHeight !== "";
      const minHeight = isInline ? "inline" : style.minHeight;
      return [name, [color, display, fontSize, fontWeight, minHeight, padding, strokeWidth].join()];
    }),
  );
  const looks = new Map<string, Set<string>>();
  for (const [name = "", look = ""] of drawn) {
    looks.set(name, (looks.get(name) ?? new Set()).add(look));
  }
  return new Map(
    [...looks].flatMap(([name, all]) => (all.size === 1 ? [[name, [...all][0]]] : [])) as [
      string,
      string,
    ][],
  );
}

test("a view looks the same whatever view was opened before", async () => {
  const { page } = await openPage(browser, service.url);
  const show = async (view: string) => {
    await page.getByRole("link", { name: view, exact: true }).click();
    await page.locator(`nav a[aria-current=page]:has-text("${view}")`).waitFor();
  };
  for (const view of VIEWS) await show(view);
  for (const view of VIEWS) {
    await show(view);
    const after = await looksOf(page);
    const fresh = await openPage(browser, `${service.url}#${view.toLowerCase()}`);
    const first = await looksOf(fresh.page);
    const both = [...first.keys()].filter((name) => after.has(name));
    expect(both.length).toBeGreaterThan(10);
    for (const name of both)
      expect(`${name}: ${after.get(name)}`).toBe(`${name}: ${first.get(name)}`);
    await fresh.page.context().close();
  }
  await page.context().close();
});

test("a click is not lost when the address of the view before is written late", async () => {
  const { page } = await openPage(browser, service.url);
  const current = (view: string) => page.locator(`nav a[aria-current=page]:has-text("${view}")`);
  await page.evaluate(() => {
    location.hash = "#herd";
  });
  await current("Herd").waitFor();
  // Busy until the address of Herd is due, then the click: both wait for the same turn.
  await page.evaluate(() => {
    const endMs = performance.now() + 500;
    while (performance.now() < endMs);
    location.hash = "#system";
  });
  await current("System").waitFor();
  expect(await page.evaluate(() => location.hash)).toBe("#system");
  await page.context().close();
});

test("the same files work in any folder of a static host", async () => {
  const { page, messages } = await openPage(browser, `${folder.url}#herd`);
  expect(await page.locator("nav a[aria-current=page]", { hasText: "Herd" }).count()).toBe(1);
  expect(messages).toEqual([]);
  await page.context().close();
});

test("a link from the command line also opens on a static host", async () => {
  const run = { view: "curve", seed: 7, policy: "interactive", outageMs: 2000 } as const;
  for (const page of ["simulator.html", "index.html", ""]) {
    const url = folder.url.replace("simulator.html", page);
    const opened = await openPage(browser, `${url}#${encodeRun(run)}`);
    expect(await opened.page.getByRole("spinbutton", { name: "Attempts" }).inputValue()).toBe("3");
    expect(opened.messages).toEqual([]);
    await opened.page.context().close();
  }
});

test("sends no request to another origin", async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  const origins = new Set<string>();
  page.on("request", (request) => origins.add(new URL(request.url()).origin));
  await page.goto(service.url);
  for (const view of VIEWS) {
    await page.getByRole("link", { name: view }).click();
    await page.locator(`nav a[aria-current=page]:has-text("${view}")`).waitFor();
  }
  expect([...origins]).toEqual([new URL(service.url).origin]);
  await context.close();
});

test("keys open the views, and open and close the shortcut dialog", async () => {
  const { page } = await openPage(browser, service.url);
  for (const [index, view] of VIEWS.entries()) {
    await page.keyboard.press(String(index + 1));
    await page.locator(`nav a[aria-current=page]:has-text("${view}")`).waitFor();
  }
  await page.keyboard.press("g");
  await page.keyboard.press("h");
  const current = (view: string) =>
    page.locator(`nav[aria-label=Views] a[aria-current=page]:has-text("${view}")`).waitFor();
  await current("Herd");
  await page.keyboard.press("3");
  await current("System");
  await page.goBack();
  await current("Herd");
  await page.keyboard.press("?");
  await page.locator("dialog[open]").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("dialog[open]").waitFor({ state: "detached" });
  await page.context().close();
});

test("an invalid link shows an error, and the first view opens", async () => {
  const { page } = await openPage(browser, `${service.url}#1.nonsense`);
  expect(await page.getByRole("alert").textContent()).toContain("This link cannot be opened");
  expect(await page.locator("nav a[aria-current=page]", { hasText: "Curve" }).count()).toBe(1);
  await page.context().close();
});

test.each(VIEWS)("%s fits a phone without horizontal scrolling", async (view) => {
  const { page } = await openPage(browser, `${service.url}#${view.toLowerCase()}`, {
    viewport: { width: 360, height: 640 },
  });
  await settled(page);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
  await page.context().close();
});

test("on a phone, the menu shows the open page", async () => {
  const { page } = await openPage(browser, service.url, { viewport: { width: 390, height: 844 } });
  const box = await page.locator(".pages [aria-current]").boundingBox();
  expect(await page.locator(".pages [aria-current]").textContent()).toBe("Simulator");
  expect(box?.x).toBeGreaterThanOrEqual(0);
  expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(390);
});

test("reduced motion disables all transitions and animations", async () => {
  const { page } = await openPage(browser, service.url, { reducedMotion: "reduce" });
  await settled(page);
  const durations = await page.evaluate(() =>
    [...document.querySelectorAll("*")].flatMap((element) => {
      const { transitionDuration, animationName } = getComputedStyle(element);
      return [...transitionDuration.split(", "), animationName];
    }),
  );
  expect([...new Set(durations)].sort()).toEqual(["0s", "none"]);
  await page.context().close();
});
