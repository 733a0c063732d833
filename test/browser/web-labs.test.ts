/** Labs in a real browser: the same results as the command line, from a worker that can be stopped. */
// needs: chromium, build
import { labs } from "@redrive/simulator";
import { encodeRun } from "@redrive/simulator/share";
import type { Page } from "playwright-core";
import { describe, expect, test, vi } from "vitest";
import {
  exported,
  onSite,
  openPage,
  printed,
  seriousFindings,
  serveStatically,
  siteInChromium,
} from "./web-pages.ts";

/** Fast labs. */
const IDS = ["budgets", "coverage"];

/** Labs make many runs, and test machines are busy. */
const MAX_MS = 120_000;
vi.setConfig({ testTimeout: 2 * MAX_MS });

const opened = siteInChromium(serveStatically);

const linkOf = (seed: number, ids: readonly string[]) =>
  `${opened.site.url}#${encodeRun({ view: "labs", seed, ids })}`;

const progress = (page: Page) => page.locator(".progress p");

async function allDone(page: Page, count = IDS.length): Promise<void> {
  await progress(page)
    .filter({ hasText: `${count} of ${count} labs finished` })
    .waitFor({ timeout: MAX_MS });
}

const cli = (...args: readonly string[]) => printed(opened.site, "sim", "lab", ...args);

describe("a link", () => {
  test("opens and runs its labs, with the results of the command line", async () => {
    const { page, messages } = await openPage(opened.browser, linkOf(7, IDS));
    await allDone(page);
    const { name, body } = await exported(page, "JSON");
    expect(name).toBe("redrive-labs.json");
    expect(JSON.parse(body.toString())).toEqual(JSON.parse(cli(...IDS, "--seed", "7", "--json")));
    const csv = await exported(page, "CSV");
    expect(csv.body.toString()).toBe(cli(...IDS, "--seed", "7", "--csv"));
    expect(await page.locator("details.lab h2").count()).toBe(IDS.length);
    expect(messages).toEqual([]);
    await page.context().close();
  });

  test("from the command line opens the same labs", async () => {
    const { url } = JSON.parse(cli("tiers", "--seed", "3", "--json", "--link")) as { url: string };
    const { page } = await openPage(opened.browser, onSite(opened.site, url));
    await allDone(page, 1);
    expect(await page.getByLabel("Seed").inputValue()).toBe("3");
    expect(await page.locator("details.lab h2").textContent()).toBe("Nested layers multiply tiers");
    await page.context().close();
  });

  test("to an unknown lab shows an error with a suggestion", async () => {
    const { page } = await openPage(opened.browser, linkOf(1, ["budgets", "ocd"]));
    const alert = page.getByRole("alert");
    await alert.waitFor();
    expect(await alert.textContent()).toContain('Unknown lab "ocd". Did you mean "occ"?');
    await page.context().close();
  });
});

describe("a lab", () => {
  test("shows published, ours, tolerance, verdict, source and a chart of all its numbers", async () => {
    const { page } = await openPage(opened.browser, linkOf(1, ["coverage", "shards"]));
    await allDone(page, 2);
    const coverage = page.locator("#lab-coverage");
    expect(await coverage.locator("tbody tr").count()).toBe(9);
    expect(await coverage.locator("tbody tr").nth(2).locator("td").allTextContents()).toEqual([
      "0.25",
      "0.241",
      "±0.02",
      "ok",
    ]);
    expect(await coverage.locator("svg circle").count()).toBe(9);
    const link = page.locator("#lab-shards .sources a");
    expect(await link.getAttribute("href")).toMatch(/^https:\/\/brooker\.co\.za\//u);
    await page.context().close();
  });

  test("exports its chart and the overview as images", async () => {
    const { page } = await openPage(opened.browser, linkOf(1, IDS));
    await allDone(page);
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "SVG of the chart of budgets" }).click(),
    ]);
    expect(file.suggestedFilename()).toBe("redrive-lab-budgets.svg");
    const overview = await exported(page, "SVG");
    const drawing = overview.body.toString();
    expect(drawing).toMatch(/^<svg.*<\/svg>\n$/su);
    expect(drawing).toContain(">coverage</text>");
    const png = await exported(page, "PNG");
    expect(png.body.subarray(1, 4).toString()).toBe("PNG");
    await page.context().close();
  });
});

describe("running", () => {
  test("starts with the open lab only, and the rest can be run, stopped and resumed", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#labs`);
    await progress(page)
      .filter({ hasText: new RegExp(`^1 of ${labs.length} labs finished$`, "u") })
      .waitFor({ timeout: MAX_MS });
    await page.getByRole("button", { name: "Run the remaining labs" }).click();
    const stop = page.getByRole("button", { name: "Stop", exact: true });
    await stop.waitFor();
    await stop.click();
    await progress(page)
      .filter({ hasText: new RegExp(`^\\d+ of ${labs.length} labs finished, stopped$`, "u") })
      .waitFor();
    const done = await page.locator(".lab-list .lab-verdict.ok").count();
    expect(done).toBeLessThan(labs.length);
    await page.getByRole("button", { name: "Run the remaining labs" }).click();
    await page.locator(".lab-list .lab-verdict.ok").nth(done).waitFor({ timeout: MAX_MS });
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.context().close();
  });

  test("only one lab ends after that lab and shows its run time", async () => {
    const { page } = await openPage(opened.browser, linkOf(1, ["metastable", "coverage"]));
    await page
      .locator("#lab-metastable summary .lab-verdict", { hasText: /^running, \d+ s$/u })
      .waitFor({ timeout: MAX_MS });
    await page.getByRole("button", { name: "Run only this lab: coverage" }).click();
    await page.locator("#lab-coverage summary .lab-verdict.ok").waitFor({ timeout: MAX_MS });
    await progress(page).filter({ hasText: "1 of 2 labs finished, stopped" }).waitFor();
    expect(await page.locator("#lab-metastable summary .lab-verdict").textContent()).toBe(
      "not run yet",
    );
    await page.getByRole("button", { name: "Run only this lab: metastable" }).click();
    await page.getByRole("button", { name: "Stop metastable" }).click();
    await page.getByRole("button", { name: "Run only this lab: metastable" }).waitFor();
    await page.context().close();
  });

  test("with another seed gives other results, and the first results are kept", async () => {
    const { page } = await openPage(opened.browser, linkOf(1, ["coverage"]));
    await allDone(page, 1);
    const ours = () => page.locator("#lab-coverage td:nth-of-type(2)").allTextContents();
    const before = await ours();
    await page.keyboard.press("r");
    await page.waitForFunction(() => {
      const input = document.querySelector<HTMLInputElement>("input.text-field");
      return input !== null && input.value !== "1";
    });
    await allDone(page, 1);
    expect(await ours()).not.toEqual(before);
    await page.getByLabel("Seed").fill("1");
    await page.keyboard.press("Enter");
    await allDone(page, 1);
    expect(await ours()).toEqual(before);
    await page.context().close();
  });

  test("works with the keyboard only", async () => {
    const { page } = await openPage(opened.browser, linkOf(1, IDS));
    await allDone(page);
    await page.locator("#lab-budgets summary").focus();
    await page.keyboard.press("Enter");
    expect(await page.locator("#lab-budgets").getAttribute("open")).toBeNull();
    await page.getByRole("checkbox", { name: "coverage" }).focus();
    await page.keyboard.press("Space");
    await allDone(page, 1);
    expect(await page.locator("details.lab").count()).toBe(1);
    expect(await page.getByRole("checkbox", { name: "budgets" }).isDisabled()).toBe(true);
    await page.context().close();
  });
});

describe("appearance", () => {
  test.each([
    ["light", 1440],
    ["dark", 1440],
    ["dark", 390],
  ] as const)(
    "%s at %i px: axe finds nothing serious, and there is no horizontal scrolling",
    async (colorScheme, width) => {
      const options = { colorScheme, viewport: { width, height: 844 } };
      const { page } = await openPage(opened.browser, linkOf(1, IDS), options);
      await allDone(page);
      expect(await seriousFindings(page)).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
      await page.context().close();
    },
  );

  test("reduced motion disables all transitions and animations", async () => {
    const { page } = await openPage(opened.browser, linkOf(1, IDS), { reducedMotion: "reduce" });
    await allDone(page);
    const durations = await page.evaluate(() =>
      [...document.querySelectorAll("main *")].flatMap((element) => {
        const { transitionDuration, animationName } = getComputedStyle(element);
        return [...transitionDuration.split(", "), animationName];
      }),
    );
    expect([...new Set(durations)].sort()).toEqual(["0s", "none"]);
    await page.context().close();
  });
});
