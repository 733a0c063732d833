/** Current figures: an outdated figure is marked as busy and is never exported. */
// needs: chromium, build

import { readFileSync } from "node:fs";
import { formatPercent } from "@redrive/core";
import { advise, type CallsDocument, type Report, scenarios, simulate } from "@redrive/simulator";
import { encodeRun, type SharedRun } from "@redrive/simulator/share";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import {
  eventually,
  holdRequests,
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

/** Starts an export while the worker is held back, and returns the file once the worker responds. */
async function exportWhileHeld(page: Page, label: string, release: () => Promise<void>) {
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  await page.locator(".menu-item", { hasText: label }).first().click();
  await page.locator(".toolbar-status", { hasText: `${label}: waiting for the result` }).waitFor();
  await release();
  return readFileSync(await (await download).path(), "utf8");
}

const isBusy = (page: Page, selector: string) =>
  page.locator(selector).first().getAttribute("aria-busy");

describe("until the worker responds, a figure is marked as busy, and its export waits", () => {
  test("coverage in Curve", async () => {
    const { page } = await open({ view: "curve", seed: 1, policy: { maxAttempts: 8 } });
    await settled(page);
    const before = await page.locator(".coverage strong").textContent();
    const release = await holdRequests(page);
    await type(page, "Attempts", 5);
    expect(await page.locator(".coverage strong").textContent()).toBe(before);
    expect(await isBusy(page, ".coverage")).toBe("true");
    expect(await isBusy(page, ".stat:has-text('Outlasts')")).toBe("true");
    const file = JSON.parse(await exportWhileHeld(page, "JSON", release));
    const flags = "schedule --full -n 5 --base 100ms --cap 30s".split(" ");
    const { coverage } = printedJson<{ readonly coverage: number }>(opened.site, ...flags);
    expect([file.policy.maxAttempts, file.coverage]).toEqual([5, coverage]);
    expect(await page.locator(".coverage strong").textContent()).toBe(formatPercent(coverage));
    expect(await isBusy(page, ".coverage")).toBe("false");
    await page.context().close();
  });

  test("counts in Herd", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#herd`);
    await settled(page);
    const release = await holdRequests(page);
    await type(page, "Clients", 700);
    for (const part of [".stats", ".herd > div", ".table-wrap"]) {
      expect(await isBusy(page, `.stage ${part}`)).toBe("true");
    }
    const file = JSON.parse(await exportWhileHeld(page, "JSON", release));
    const flags = "sim herd -N 700 --compare none,equal,full,decorrelated".split(" ");
    expect(file).toEqual(printedJson(opened.site, ...flags));
    await page.context().close();
  });

  test("a run in System", async () => {
    const metastable = scenarios["metastable"] as CallsDocument;
    const { page } = await openPage(opened.browser, `${opened.site.url}#system`);
    await settled(page);
    const release = await holdRequests(page);
    await page.getByLabel("Seed").fill("8");
    await page.keyboard.press("Enter");
    for (const part of [".verdict", ".stats", ".run-plot", ".table-wrap"]) {
      expect(await isBusy(page, `.run-card ${part}`)).toBe("true");
    }
    const file: Report = JSON.parse(await exportWhileHeld(page, "JSON", release));
    expect(file.attempts).toBe(simulate(metastable, { seed: 8 }).attempts);
    await page.context().close();
  });

  test("advice in Advisor", async () => {
    const { page } = await open({ view: "advisor", answers: { outageMs: 8000 } });
    await settled(page);
    const release = await holdRequests(page);
    await page.getByRole("button", { name: /^Change: Who waits/u }).click();
    await page.getByRole("button", { name: "Nobody: a job or a queue" }).click();
    expect(await isBusy(page, ".advised")).toBe("true");
    // A link to another view would open the previous advice.
    await page.locator(".view-links a").first().click();
    const file = JSON.parse(await exportWhileHeld(page, "JSON", release));
    const { policy } = advise({ outageMs: 8000, waits: "job" });
    expect([file.answers, file.policy]).toEqual([{ outageMs: 8000, waits: "job" }, policy]);
    expect(await page.locator('nav a[aria-current="page"]').last().textContent()).toBe("Advisor");
    await page.context().close();
  });
});

test("exporting a chart that is no longer on the page shows an error", async () => {
  const { page } = await openPage(opened.browser, `${opened.site.url}#herd`);
  for (const [label, clients] of [["PNG", 700] as const, ["SVG", 800] as const]) {
    await page.getByRole("link", { name: "Herd" }).click();
    await settled(page);
    const release = await holdRequests(page);
    await type(page, "Clients", clients);
    await page.getByRole("button", { name: "Export" }).click();
    await page.locator(".menu-item", { hasText: label }).first().click();
    await page
      .locator(".toolbar-status", { hasText: `${label}: waiting for the result` })
      .waitFor();
    await page.getByRole("link", { name: "Curve" }).click();
    await page.locator(".coverage").waitFor();
    await release();
    await page
      .locator(".toolbar-status", { hasText: `No ${label}: the chart is not on the page` })
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

  test.each(LINKS)("sends one %s request to the worker, for its own state", async (kind, run) => {
    const context = await opened.browser.newContext();
    await context.addInitScript(() => {
      const requests: { readonly kind: string }[] = [];
      Object.assign(globalThis, { requests });
      const post = Worker.prototype.postMessage;
      Worker.prototype.postMessage = function (this: Worker, message: unknown) {
        requests.push(message as { readonly kind: string });
        post.call(this, message);
      };
    });
    const page = await context.newPage();
    await page.goto(`${opened.site.url}#${encodeRun(run)}`);
    await page.locator("main .stage").waitFor();
    await settled(page);
    const inputs = await page.evaluate(
      (wanted) =>
        (globalThis as unknown as { requests: { kind: string; input: unknown }[] }).requests
          .filter((one) => one.kind === wanted)
          .map(({ input }) => JSON.stringify(input)),
      kind,
    );
    expect(inputs).toHaveLength(1);
    expect(inputs[0]).toContain(kind === "advise" ? '"tiers":2' : '"seed":5');
    await context.close();
  });

  test("that loads slowly does not overwrite a link that was opened later", async () => {
    const { page } = await open({ view: "curve", seed: 1, policy: {} });
    let deliver = () => {};
    const held = new Promise<void>((resolve) => {
      deliver = resolve;
    });
    const requested = new Promise<string>((resolve) => {
      void page.route("**/catalog-*.js", async (route) => {
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
    const chunk = await requested;
    await go({ view: "curve", seed: 3, policy: { maxAttempts: 4 } });
    const attempts = page.getByRole("spinbutton", { name: "Attempts" });
    await eventually(() => attempts.inputValue()).toBe("4");
    deliver();
    // As text, because the test compiler replaces import(). The page's import resolves first.
    await page.evaluate(`import(${JSON.stringify(chunk)}).then(() => undefined)`);
    await settled(page);
    expect(await attempts.inputValue()).toBe("4");
    await page.context().close();
  });
});
