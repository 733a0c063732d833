/** Links and exports of System: the page shows and exports the numbers of the command line. */
// needs: chromium, build
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CallsDocument, checkScenario, type Report, scenarios } from "@redrive/simulator";
import { decodeRun, encodeRun, type SharedRun } from "@redrive/simulator/share";
import { reportRows } from "@redrive/simulator/text";
import type { Page } from "playwright-core";
import { afterAll, describe, expect, test } from "vitest";
import {
  countRequests,
  eventually,
  exported,
  openPage,
  printedJson,
  serveByService,
  settled,
  siteInChromium,
} from "./web-pages.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-system-"));

const opened = siteInChromium(serveByService);

afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** The JSON output of the command line, with a link to the test service. */
function redrive<T = Report>(...args: readonly string[]) {
  return printedJson<T & { readonly url: string }>(opened.site, ...args, "--link");
}

/** Every row of the table of all measures. */
async function measuresOf(page: Page): Promise<readonly string[]> {
  await settled(page);
  await page.getByText("All measures").click();
  return await page
    .locator(".run-card .table tbody tr")
    .evaluateAll((rows) =>
      rows.map((row) => [...row.children].map((cell) => cell.textContent).join(" | ")),
    );
}

const mine: CallsDocument = {
  name: "mine",
  horizonMs: 40_000,
  clients: { kind: "OPEN", count: 5, ratePerSecond: 90 },
  tiers: [
    {
      destination: {
        policy: { maxAttempts: 3, initialDelayMs: 50, jitterType: "EQUAL", attemptTimeoutMs: 800 },
        retryBudget: { ratio: 0.3 },
      },
      server: {
        capacityPerSecond: 120,
        queueMs: 900,
        latency: { kind: "NORMAL", meanMs: 20, sdMs: 4 },
      },
    },
  ],
  timeline: [
    { kind: "PARTIAL", share: 0.4, atMs: 6000, forMs: 5000 },
    { kind: "FAILOVER", atMs: 20_000, forMs: 2500, warmMs: 3000 },
  ],
};

describe("a link from the command line", () => {
  test("from sim run FILE shows all its numbers", async () => {
    const file = join(folder, "mine.json");
    writeFileSync(file, JSON.stringify(mine));
    const { url, ...report } = redrive("sim", "run", file, "--seed", "7");
    const { page, messages } = await openPage(opened.browser, url);
    await settled(page);
    expect(await page.locator(".verdict").textContent()).toBe(report.verdict);
    expect(await page.getByLabel("Seed").inputValue()).toBe("7");
    expect(await measuresOf(page)).toEqual(reportRows(report).map((row) => row.join(" | ")));
    const { body } = await exported(page, "JSON");
    expect(JSON.parse(body.toString())).toEqual(report);
    expect(messages).toEqual([]);
    await page.context().close();
  });

  test("from sim failover compares its strategies", async () => {
    const { strategies, url } = redrive<{
      readonly strategies: readonly { readonly name: string; readonly report: Report }[];
    }>("sim", "failover", "-N", "2000", "--seed", "3");
    const { page } = await openPage(opened.browser, url);
    await settled(page);
    const rows = page.locator(".compare tbody tr");
    const shown = await rows.locator(".verdict-cell").allTextContents();
    expect(shown).toEqual(strategies.map(({ report }) => report.verdict));
    expect(await rows.locator(".row-name").allTextContents()).toEqual(
      strategies.map(({ name }) => `failover-${name}`),
    );
    await page.getByRole("button", { name: "failover-full", exact: true }).click();
    const full = strategies.find(({ name }) => name === "full")?.report;
    await page.locator(".verdict", { hasText: full?.verdict ?? "?" }).waitFor();
    await page.context().close();
  });

  test("from sim ladder opens all its scenarios", async () => {
    const { url } = redrive("sim", "ladder");
    const { page } = await openPage(opened.browser, url);
    const names = page.locator(".compare .row-name");
    await names.first().waitFor();
    const rungs = Object.keys(scenarios).filter((name) => name.startsWith("ladder-"));
    expect(await names.allTextContents()).toEqual(rungs);
    await page.context().close();
  });
});

describe("a shared link", () => {
  test("opened in a new page shows the same numbers and the same comparison", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#system`);
    await settled(page);
    await page.getByRole("button", { name: "Keep this run" }).click();
    await page.getByLabel("Retry budget").check();
    await page.getByLabel("Offered load").first().fill("640");
    await page.keyboard.press("Tab");
    await page.keyboard.press("r");
    await page.locator(".line-attempts.ghost").waitFor();
    const before = await measuresOf(page);
    // The address follows after 250 ms; Share writes it immediately if the clipboard is denied.
    await page.getByRole("button", { name: "Share" }).click();
    await page.locator(".toolbar-status", { hasText: /address bar|copied/u }).waitFor();
    const seed = Number(await page.getByLabel("Seed").inputValue());
    await eventually(() => decodeRun(new URL(page.url()).hash)).toMatchObject({ run: { seed } });
    const second = await openPage(opened.browser, page.url());
    await second.page.locator(".line-attempts.ghost").waitFor();
    expect(await measuresOf(second.page)).toEqual(before);
    expect(await second.page.locator(".compare tbody tr").count()).toBe(2);
    await page.context().close();
    await second.page.context().close();
  });

  test("with an invalid scenario shows the error and the initial scenario", async () => {
    const bad = { ...mine, clients: { kind: "OPEN", ratePerSecond: -3 } } as CallsDocument;
    const [problem] = checkScenario(bad);
    const run: SharedRun = { view: "system", seed: 1, scenarios: [bad] };
    const { page } = await openPage(opened.browser, `${opened.site.url}#${encodeRun(run)}`);
    await settled(page);
    expect(await page.getByRole("alert").first().textContent()).toContain(problem?.message);
    expect(await page.locator(".verdict").textContent()).toBe("never recovers: 700 x 4 > 1,000");
    await page.context().close();
  });
});

describe("exports", () => {
  test("are valid files", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#system`);
    await settled(page);
    const png = await exported(page, "PNG");
    expect(png.name).toBe("redrive-system-metastable.png");
    expect(png.body.subarray(1, 4).toString()).toBe("PNG");
    const svg = (await exported(page, "SVG")).body.toString();
    const problems = await page.evaluate((text) => {
      const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
      return parsed.querySelectorAll("parsererror, script, [class]").length;
    }, svg);
    expect(problems).toBe(0);
    expect(svg).toContain("capacity 1,000/s");
    const csv = (await exported(page, "CSV")).body.toString().trimEnd().split("\n");
    expect(csv[0]).toBe("atMs,offered,attempts,succeeded,failed,queueMs");
    expect(csv).toHaveLength(601);
    await page.getByRole("button", { name: "Export" }).click();
    expect(await page.locator(".menu-item", { hasText: "Code" }).count()).toBe(1);
    await page.context().close();
  });
});

describe("the scenario document", () => {
  test("can be edited as JSON, and errors are shown", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#system`);
    await settled(page);
    await page.getByText("Scenario as JSON").click();
    const area = page.getByLabel("Scenario document");
    await area.fill('{ "clients": { "kind": "OPEN", "ratePerSecnd": 5 } }');
    await page.getByRole("button", { name: "Apply", exact: true }).click();
    await page.locator(".json-problem", { hasText: "ratePerSecond" }).waitFor();
    await area.fill("{");
    await page.getByRole("button", { name: "Apply", exact: true }).click();
    await page.locator(".json-problem", { hasText: "not JSON" }).waitFor();
    await area.fill(JSON.stringify(scenarios["brownout"]));
    await page.getByRole("button", { name: "Apply", exact: true }).click();
    await page.locator(".verdict", { hasText: "recovers at once" }).waitFor();
    expect(await page.getByLabel("Preset").inputValue()).toBe("brownout");
    await page.context().close();
  });
});

describe("a long run", () => {
  /** The maximum number of calls of a run: slow on any machine. */
  const endless: CallsDocument = {
    name: "endless",
    horizonMs: 86_400_000,
    clients: { kind: "OPEN", ratePerSecond: 1150 },
    // A guard, so that the run without guards is a second long run.
    tiers: [{ destination: { retryBudget: { ratio: 0.1 } } }],
  };

  test("shows its progress, does not block the page, and stops for the next run", async () => {
    const run: SharedRun = { view: "system", seed: 1, scenarios: [endless] };
    const { page } = await openPage(opened.browser, `${opened.site.url}#${encodeRun(run)}`);
    const bar = page.locator("progress");
    await bar.waitFor();
    await page.waitForFunction(() => (document.querySelector("progress")?.value ?? 0) > 0);
    // A page that is not blocked draws frames during the run.
    const shares = await page.evaluate(async () => {
      const share = () => document.querySelector("progress")?.value ?? 1;
      const before = share();
      for (let frame = 0; frame < 20; frame++) await new Promise(requestAnimationFrame);
      return [before, share()];
    });
    expect(Math.max(...shares)).toBeLessThan(0.5);
    await page.getByLabel("Preset").selectOption("metastable");
    await page.getByText("never recovers: 700 x 4 > 1,000").first().waitFor();
    await bar.waitFor({ state: "detached" });
    await page.context().close();
  });

  test("stops when its view is closed, so that the next view gets its results", async () => {
    const run: SharedRun = { view: "system", seed: 1, scenarios: [endless] };
    const { page } = await openPage(opened.browser, `${opened.site.url}#${encodeRun(run)}`);
    await page.waitForFunction(() => (document.querySelector("progress")?.value ?? 0) > 0);
    await page.getByRole("link", { name: "Curve" }).click();
    await page.locator(".coverage").waitFor();
    await settled(page);
    expect(await page.locator(".coverage strong").textContent()).toBe("24.1 %");
    await page.context().close();
  });

  test("that is closed and reopened immediately restarts only once", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#curve`);
    await settled(page);
    // Only the clock of the page is paused, so the speed of the clicks does not matter.
    await page.clock.install({ time: 0 });
    await page.clock.pauseAt(60_000);
    const started = await countRequests(page, "simulate");
    const run: SharedRun = { view: "system", seed: 1, scenarios: [endless] };
    await page.evaluate((hash) => {
      location.hash = hash;
    }, encodeRun(run));
    await eventually(started).toBe(1);
    await page.getByRole("link", { name: "Curve" }).click();
    await page.locator(".coverage").waitFor();
    await page.getByRole("link", { name: "System" }).click();
    await page.locator(".run-card").waitFor();
    // The old worker is terminated, and a new one starts the run. A page that sends requests in a
    // loop would hang here.
    await page.clock.runFor(1000);
    await eventually(started).toBe(2);
    await page.clock.runFor(10_000);
    const share = () => page.locator("progress").evaluate((bar: HTMLProgressElement) => bar.value);
    await eventually(share).toBeGreaterThan(0);
    const before = await share();
    await eventually(share).toBeGreaterThan(before);
    expect(await started()).toBe(2);
    await page.context().close();
  });
});
