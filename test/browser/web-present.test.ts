/** Figures and what they are of: one that belongs to another question is marked, and never given away as if it did not. */
// needs: chromium, build

import { readFileSync } from "node:fs";
import { formatPercent } from "@redrive/core";
import { advise, type CallsDocument, type Report, scenarios, simulate } from "@redrive/simulator";
import { encodeRun, type SharedRun } from "@redrive/simulator/share";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import {
  eventually,
  holdQuestions,
  openPage,
  printedJson,
  serveByService,
  settled,
  siteInChromium,
} from "./web-pages.ts";

const opened = siteInChromium(serveByService);

const open = (run: SharedRun) => openPage(opened.browser, `${opened.site.url}#${encodeRun(run)}`);

async function type(page: Page, label: string, value: number): Promise<void> {
  const field = page.getByRole("spinbutton", { name: label, exact: true });
  await field.fill(String(value));
  await field.press("Enter");
}

/** Chooses a file while the answer is held back, and gives it once the answer has come. */
async function exportedAcross(page: Page, label: string, letGo: () => Promise<void>) {
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  await page.locator(".menu-item", { hasText: label }).first().click();
  await page.locator(".said", { hasText: `${label} comes with the answer` }).waitFor();
  await letGo();
  return readFileSync(await (await download).path(), "utf8");
}

const isBusy = (page: Page, selector: string) =>
  page.locator(selector).first().getAttribute("aria-busy");

describe("until the answer comes, a figure is marked, and its file waits", () => {
  test("the curve's coverage", async () => {
    const { page } = await open({ view: "curve", seed: 1, policy: { maxAttempts: 8 } });
    await settled(page);
    const before = await page.locator(".coverage strong").textContent();
    const letGo = await holdQuestions(page);
    await type(page, "Attempts", 5);
    expect(await page.locator(".coverage strong").textContent()).toBe(before);
    expect(await isBusy(page, ".coverage")).toBe("true");
    expect(await isBusy(page, ".stat:has-text('Outlasts')")).toBe("true");
    const given = JSON.parse(await exportedAcross(page, "JSON", letGo));
    const flags = "schedule --full -n 5 --base 100ms --cap 30s".split(" ");
    const { coverage } = printedJson<{ readonly coverage: number }>(opened.site, ...flags);
    expect([given.policy.maxAttempts, given.coverage]).toEqual([5, coverage]);
    expect(await page.locator(".coverage strong").textContent()).toBe(formatPercent(coverage));
    expect(await isBusy(page, ".coverage")).toBe("false");
    await page.context().close();
  });

  test("the herd's counts", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#herd`);
    await settled(page);
    const letGo = await holdQuestions(page);
    await type(page, "Clients", 700);
    for (const part of [".stats", ".herd > div", ".table-wrap"]) {
      expect(await isBusy(page, `.stage ${part}`)).toBe("true");
    }
    const given = JSON.parse(await exportedAcross(page, "JSON", letGo));
    const flags = "sim herd -N 700 --compare none,equal,full,decorrelated".split(" ");
    expect(given).toEqual(printedJson(opened.site, ...flags));
    await page.context().close();
  });

  test("the run of a system", async () => {
    const metastable = scenarios["metastable"] as CallsDocument;
    const { page } = await openPage(opened.browser, `${opened.site.url}#system`);
    await settled(page);
    const letGo = await holdQuestions(page);
    await page.getByLabel("Seed").fill("8");
    await page.keyboard.press("Enter");
    for (const part of [".verdict", ".stats", ".run-plot", ".table-wrap"]) {
      expect(await isBusy(page, `.run-card ${part}`)).toBe("true");
    }
    const given: Report = JSON.parse(await exportedAcross(page, "JSON", letGo));
    expect(given.attempts).toBe(simulate(metastable, { seed: 8 }).attempts);
    await page.context().close();
  });

  test("the advice", async () => {
    const { page } = await open({ view: "advisor", answers: { outageMs: 8000 } });
    await settled(page);
    const letGo = await holdQuestions(page);
    await page.getByRole("button", { name: /^Change: Who waits/u }).click();
    await page.getByRole("button", { name: "Nobody: a job or a queue" }).click();
    expect(await isBusy(page, ".advised")).toBe("true");
    // A link to another view would open what the answers before led to.
    await page.locator(".openings a").first().click();
    const given = JSON.parse(await exportedAcross(page, "JSON", letGo));
    const { policy } = advise({ outageMs: 8000, waits: "job" });
    expect([given.answers, given.policy]).toEqual([{ outageMs: 8000, waits: "job" }, policy]);
    expect(await page.locator('nav a[aria-current="page"]').last().textContent()).toBe("Advisor");
    await page.context().close();
  });
});

test("a picture of what is no longer on the page is refused in a sentence", async () => {
  const { page } = await openPage(opened.browser, `${opened.site.url}#herd`);
  for (const [label, clients] of [["PNG", 700] as const, ["SVG", 800] as const]) {
    await page.getByRole("link", { name: "Herd" }).click();
    await settled(page);
    const letGo = await holdQuestions(page);
    await type(page, "Clients", clients);
    await page.getByRole("button", { name: "Export" }).click();
    await page.locator(".menu-item", { hasText: label }).first().click();
    await page.locator(".said", { hasText: `${label} comes with the answer` }).waitFor();
    await page.getByRole("link", { name: "Curve" }).click();
    await page.locator(".coverage").waitFor();
    await letGo();
    await page
      .locator(".said", { hasText: `No ${label}: the drawing is not on the page` })
      .waitFor();
  }
  await page.context().close();
});

describe("a link", () => {
  const LINKS: readonly (readonly [string, SharedRun])[] = [
    ["coverage", { view: "curve", seed: 5, policy: "interactive", outageMs: 2000 }],
    [
      "herd",
      {
        view: "herd",
        seed: 5,
        strategies: [{ name: "mine", policy: { maxAttempts: 3 } }],
        clients: 900,
        windowMs: 10,
      },
    ],
    ["simulate", { view: "system", seed: 5, scenarios: ["brownout"], ghost: "none" }],
    ["advise", { view: "advisor", answers: { tiers: 2 } }],
  ];

  test.each(LINKS)("asks the worker for its own %s, and nothing else first", async (kind, run) => {
    const context = await opened.browser.newContext();
    await context.addInitScript(() => {
      const asked: { readonly kind: string }[] = [];
      Object.assign(globalThis, { asked });
      const post = Worker.prototype.postMessage;
      Worker.prototype.postMessage = function (this: Worker, message: unknown) {
        asked.push(message as { readonly kind: string });
        post.call(this, message);
      };
    });
    const page = await context.newPage();
    await page.goto(`${opened.site.url}#${encodeRun(run)}`);
    await page.locator("main .stage").waitFor();
    await settled(page);
    const inputs = await page.evaluate(
      (wanted) =>
        (globalThis as unknown as { asked: { kind: string; input: unknown }[] }).asked
          .filter((one) => one.kind === wanted)
          .map(({ input }) => JSON.stringify(input)),
      kind,
    );
    expect(inputs).toHaveLength(1);
    expect(inputs[0]).toContain(kind === "advise" ? '"tiers":2' : '"seed":5');
    await context.close();
  });

  test("that takes long to read does not overwrite the one that was opened after it", async () => {
    const { page } = await open({ view: "curve", seed: 1, policy: {} });
    let deliver = () => {};
    const held = new Promise<void>((resolve) => {
      deliver = resolve;
    });
    const asked = new Promise<string>((resolve) => {
      void page.route("**/catalogue-*.js", async (route) => {
        resolve(route.request().url());
        await held;
        await route.continue();
      });
    });
    const go = (run: SharedRun) =>
      page.evaluate((hash) => {
        location.hash = hash;
      }, encodeRun(run));
    await go({ view: "curve", seed: 2, policy: "aws-standard" });
    const chunk = await asked;
    await go({ view: "curve", seed: 3, policy: { maxAttempts: 4 } });
    const attempts = page.getByRole("spinbutton", { name: "Attempts" });
    await eventually(() => attempts.inputValue()).toBe("4");
    deliver();
    // As text, because what compiles tests has an import of its own. Who asked first goes on first.
    await page.evaluate(`import(${JSON.stringify(chunk)}).then(() => undefined)`);
    await settled(page);
    expect(await attempts.inputValue()).toBe("4");
    await page.context().close();
  });
});
