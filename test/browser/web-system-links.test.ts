/** Runs of systems as links and files: the page shows the command line's numbers, and gives them away again. */
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
  countedQuestions,
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

/** What the command line prints as JSON, with a link into our service. */
function redrive<T = Report>(...args: readonly string[]) {
  return printedJson<T & { readonly url: string }>(opened.site, ...args, "--url");
}

/** Measure and value of every row of the full table. */
async function measuresOf(page: Page): Promise<readonly string[]> {
  await settled(page);
  await page.getByText("Every measure").click();
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

describe("a link of the command line", () => {
  test("from sim run FILE shows its numbers, every one", async () => {
    const file = join(folder, "mine.json");
    writeFileSync(file, JSON.stringify(mine));
    const { url, ...report } = redrive("sim", "run", file, "--seed", "7");
    const { page, complaints } = await openPage(opened.browser, url);
    await settled(page);
    expect(await page.locator(".verdict").textContent()).toBe(report.verdict);
    expect(await page.getByLabel("Seed").inputValue()).toBe("7");
    expect(await measuresOf(page)).toEqual(reportRows(report).map((row) => row.join(" | ")));
    const { body } = await exported(page, "JSON");
    expect(JSON.parse(body.toString())).toEqual(report);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("from sim failover sets its strategies side by side", async () => {
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

  test("from sim ladder opens all its rungs", async () => {
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
    // The address follows a quarter of a second behind; Share writes it at once where the clipboard is closed.
    await page.getByRole("button", { name: "Share" }).click();
    await page.locator(".said", { hasText: /address bar|copied/u }).waitFor();
    const seed = Number(await page.getByLabel("Seed").inputValue());
    await eventually(() => decodeRun(new URL(page.url()).hash)).toMatchObject({ run: { seed } });
    const second = await openPage(opened.browser, page.url());
    await second.page.locator(".line-attempts.ghost").waitFor();
    expect(await measuresOf(second.page)).toEqual(before);
    expect(await second.page.locator(".compare tbody tr").count()).toBe(2);
    await page.context().close();
    await second.page.context().close();
  });

  test("with a bad scenario is told by its problem, and the classic is shown", async () => {
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
  test("are files that others can read", async () => {
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

describe("the document itself", () => {
  test("can be edited as JSON, and refuses what is wrong in a sentence", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#system`);
    await settled(page);
    await page.getByText("The scenario as JSON").click();
    const area = page.getByLabel("Scenario document");
    await area.fill('{ "clients": { "kind": "OPEN", "ratePerSecnd": 5 } }');
    await page.getByRole("button", { name: "Apply" }).click();
    await page.locator(".json-problem", { hasText: "ratePerSecond" }).waitFor();
    await area.fill("{");
    await page.getByRole("button", { name: "Apply" }).click();
    await page.locator(".json-problem", { hasText: "not JSON" }).waitFor();
    await area.fill(JSON.stringify(scenarios["brownout"]));
    await page.getByRole("button", { name: "Apply" }).click();
    await page.locator(".verdict", { hasText: "recovers at once" }).waitFor();
    expect(await page.getByLabel("Preset").inputValue()).toBe("brownout");
    await page.context().close();
  });
});

describe("a long run", () => {
  /** As many calls as a run may have: long work for any machine. */
  const endless: CallsDocument = {
    name: "endless",
    horizonMs: 86_400_000,
    clients: { kind: "OPEN", ratePerSecond: 1150 },
    // So that another endless run stands behind it.
    tiers: [{ destination: { retryBudget: { ratio: 0.1 } } }],
  };

  test("shows its progress, leaves the page free, and makes way for the next", async () => {
    const run: SharedRun = { view: "system", seed: 1, scenarios: [endless] };
    const { page } = await openPage(opened.browser, `${opened.site.url}#${encodeRun(run)}`);
    const bar = page.locator("progress");
    await bar.waitFor();
    await page.waitForFunction(() => (document.querySelector("progress")?.value ?? 0) > 0);
    // A page that is free draws frames while the run goes on; one that is blocked draws none before its end.
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

  test("is left behind with its view: the next one gets its answers", async () => {
    const run: SharedRun = { view: "system", seed: 1, scenarios: [endless] };
    const { page } = await openPage(opened.browser, `${opened.site.url}#${encodeRun(run)}`);
    await page.waitForFunction(() => (document.querySelector("progress")?.value ?? 0) > 0);
    await page.getByRole("link", { name: "Curve" }).click();
    await page.locator(".coverage").waitFor();
    await settled(page);
    expect(await page.locator(".coverage strong").textContent()).toBe("24.1 %");
    await page.context().close();
  });

  test("that is left and wanted again at once goes on, and is not begun again and again", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#curve`);
    await settled(page);
    // The page's clock stands, its worker's does not: nothing here depends on how quick we click.
    await page.clock.install({ time: 0 });
    await page.clock.pauseAt(60_000);
    const begun = await countedQuestions(page, "simulate");
    const run: SharedRun = { view: "system", seed: 1, scenarios: [endless] };
    await page.evaluate((hash) => {
      location.hash = hash;
    }, encodeRun(run));
    await eventually(begun).toBe(1);
    await page.getByRole("link", { name: "Curve" }).click();
    await page.locator(".coverage").waitFor();
    await page.getByRole("link", { name: "System" }).click();
    await page.locator(".run-card").waitFor();
    // The worker that was left is ended, and another begins the run. A page that asks over and over
    // does not come back from here.
    await page.clock.runFor(1000);
    await eventually(begun).toBe(2);
    await page.clock.runFor(10_000);
    const share = () => page.locator("progress").evaluate((bar: HTMLProgressElement) => bar.value);
    await eventually(share).toBeGreaterThan(0);
    const before = await share();
    await eventually(share).toBeGreaterThan(before);
    expect(await begun()).toBe(2);
    await page.context().close();
  });
});
