/** Herd in a real browser: the counts of the command line, up to a million clients, without blocking the page. */
// needs: chromium, build
import { formatDuration, formatInteger, formatPercent } from "@redrive/core";
import { type Herd, herd } from "@redrive/simulator";
import { decodeRun, encodeRun } from "@redrive/simulator/share";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import {
  eventually,
  exported,
  openPage,
  printedJson,
  serveByService,
  settled,
  siteInChromium,
} from "./web-pages.ts";

interface Printed {
  readonly clients: number;
  readonly windowMs: number;
  readonly strategies: readonly { readonly name: string; readonly herd: Herd }[];
  readonly url: string;
}

const opened = siteInChromium(serveByService);

const redrive = (...args: readonly string[]) =>
  printedJson<Printed>(opened.site, "sim", "herd", ...args, "--link");

/** The text of the table of peaks, once the worker has responded. */
async function peaksOf(page: Page): Promise<readonly (readonly string[])[]> {
  await settled(page);
  return await page
    .locator(".peaks tbody tr")
    .evaluateAll((rows) =>
      rows.map((row) => [
        row.getAttribute("data-strategy") ?? "",
        ...[...row.querySelectorAll("td")].map((cell) => cell.textContent ?? ""),
      ]),
    );
}

function rowsOf({ strategies }: Printed): readonly (readonly string[])[] {
  return strategies.map(({ name, herd: { peak, retries, lastAtMs } }) => [
    name,
    formatInteger(peak.count),
    formatPercent(peak.share),
    formatDuration(peak.atMs),
    formatInteger(retries),
    formatDuration(lastAtMs),
  ]);
}

async function type(page: Page, label: string, value: number): Promise<void> {
  const field = page.getByRole("spinbutton", { name: label });
  await field.fill(String(value));
  await field.press("Enter");
}

describe("the counts equal those of the command line", () => {
  test("in the initial state: four strategies, one seed, one window", async () => {
    const printed = redrive("-N", "10000", "--compare", "none,equal,full,decorrelated");
    const { page } = await openPage(opened.browser, `${opened.site.url}#herd`);
    expect(await peaksOf(page)).toEqual(rowsOf(printed));
    await page.context().close();
  });

  test("from a link that it prints", async () => {
    const flags = ["-N", "2500", "--compare", "immediate,full,aws-standard", "--seed", "7"];
    const printed = redrive(...flags, "--window", "25ms");
    const { page, messages } = await openPage(opened.browser, printed.url);
    expect(await peaksOf(page)).toEqual(rowsOf(printed));
    expect(await page.getByRole("spinbutton", { name: "Window" }).inputValue()).toBe("25");
    expect(messages).toEqual([]);
    await page.context().close();
  });

  test("in the exported files", async () => {
    const printed = redrive("-N", "10000", "--compare", "none,equal,full,decorrelated");
    const { page } = await openPage(opened.browser, `${opened.site.url}#herd`);
    await peaksOf(page);
    const json = JSON.parse((await exported(page, "JSON")).body.toString());
    const { url: _, ...expected } = printed;
    expect(json).toEqual(expected);
    const csv = (await exported(page, "CSV")).body.toString().trim().split("\n");
    expect(csv[0]).toBe("atMs,none,equal,full,decorrelated");
    expect(csv).toHaveLength(
      1 + Math.max(...printed.strategies.map(({ herd }) => herd.arrivals.length)),
    );
    expect((await exported(page, "PNG")).body.subarray(1, 4).toString()).toBe("PNG");
    expect((await exported(page, "SVG")).body.toString()).toContain("</svg>");
    await page.context().close();
  });
});

describe("the compared strategies", () => {
  test("can be removed and added, up to six, and are part of the link", async () => {
    const names = "none,equal,full,decorrelated,linear,fixed";
    const full = await openPage(opened.browser, redrive("-N", "1000", "--compare", names).url);
    expect((await peaksOf(full.page)).map(([name]) => name)).toEqual(names.split(","));
    expect(await full.page.getByRole("button", { name: "+ immediate" }).count()).toBe(0);
    await full.page.context().close();
    const { page } = await openPage(opened.browser, `${opened.site.url}#herd`);
    await peaksOf(page);
    await page.getByRole("button", { name: "Remove Equal jitter" }).click();
    await page.getByRole("button", { name: "+ linear" }).click();
    const kept = ["none", "full", "decorrelated", "linear"];
    await eventually(async () => (await peaksOf(page)).map(([name]) => name)).toEqual(kept);
    await eventually(() => decodeRun(new URL(page.url()).hash)).toMatchObject({
      run: { strategies: kept.map((name) => ({ name })) },
    });
    const peaks = await peaksOf(page);
    const other = await openPage(opened.browser, page.url());
    expect(await peaksOf(other.page)).toEqual(peaks);
    await page.context().close();
    await other.page.context().close();
  });

  test("include custom documents in the link, even one whose name equals its policyId", async () => {
    const policy = { policyId: "orders", maxAttempts: 3, initialDelayMs: 70 };
    const strategies = [{ name: "orders", policy }];
    const run = { view: "herd", seed: 4, strategies, clients: 500, windowMs: 10 } as const;
    const { page } = await openPage(opened.browser, `${opened.site.url}#${encodeRun(run)}`);
    await peaksOf(page);
    await page.getByRole("button", { name: "+ linear" }).click();
    await eventually(() => decodeRun(new URL(page.url()).hash)).toMatchObject({
      run: { strategies: [{ name: "orders", policy }, { name: "linear" }] },
    });
    await page.context().close();
  });

  test("change with a re-roll only if they have jitter", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#herd`);
    const before = await peaksOf(page);
    await page.keyboard.press("r");
    const after = await peaksOf(page);
    const aside = await page.locator(".card-aside", { hasText: "windows of" }).textContent();
    const seed = /^seed (\d+),/u.exec(aside ?? "")?.[1] ?? "";
    expect(seed).not.toBe("1");
    const names = "none,equal,full,decorrelated";
    expect(after).toEqual(rowsOf(redrive("-N", "10000", "--compare", names, "--seed", seed)));
    expect(after[0]).toEqual(before[0]);
    await page.context().close();
  });
});

test("dragging the window changes the peak", async () => {
  const { page } = await openPage(opened.browser, `${opened.site.url}#herd`);
  const before = await peaksOf(page);
  const handle = page.getByRole("slider", { name: "Window width, draggable" });
  await handle.scrollIntoViewIfNeeded();
  const box = (await handle.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
  const at = (share: number) => 10 + box.x + (box.width - 20) * share;
  await page.mouse.move(at(1 / 3), box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(at(2 / 3), box.y + box.height / 2, { steps: 6 });
  await page.mouse.up();
  const field = page.getByRole("spinbutton", { name: "Window" });
  await eventually(async () => Number(await field.inputValue())).toBeGreaterThan(90);
  expect(Number(await field.inputValue())).toBeLessThan(110);
  const full = (rows: typeof before) => Number((rows[2]?.[1] ?? "").replace(/,/gu, ""));
  await eventually(async () => full(await peaksOf(page))).toBeGreaterThan(full(before));
  await page.context().close();
});

/** Starts to measure the gaps between frames in the page. */
async function watchFrames(page: Page): Promise<void> {
  await page.evaluate(() => {
    const before = (globalThis as { frameGaps?: { isOver: boolean } }).frameGaps;
    if (before !== undefined) before.isOver = true;
    const frameGaps = { longest: 0, last: performance.now(), isOver: false };
    Object.assign(globalThis, { frameGaps });
    const look = () => {
      const now = performance.now();
      frameGaps.longest = Math.max(frameGaps.longest, now - frameGaps.last);
      frameGaps.last = now;
      if (!frameGaps.isOver) setTimeout(look, 1);
    };
    look();
  });
}

async function longestGap(page: Page): Promise<number> {
  return await page.evaluate(
    () => (globalThis as unknown as { frameGaps: { longest: number } }).frameGaps.longest,
  );
}

/** Sets a number and measures in the page how long it takes until the result is drawn. */
async function timeToDraw(page: Page, clients: number): Promise<number> {
  return await page.evaluate(async (wanted) => {
    const input = [...document.querySelectorAll<HTMLInputElement>("input[type=number]")][0];
    if (input === undefined) throw new Error("no field");
    const shown = () => document.querySelector(".stat-value")?.textContent?.replace(/,/gu, "");
    const started = performance.now();
    input.value = String(wanted);
    input.dispatchEvent(new Event("change", { bubbles: true }));
    await new Promise<void>((resolve) => {
      const look = () => {
        const isDone =
          shown() === String(wanted) &&
          document.querySelector('.stage [aria-busy="true"]') === null;
        if (isDone) resolve();
        else requestAnimationFrame(look);
      };
      look();
    });
    return performance.now() - started;
  }, clients);
}

/** Measures the same counts in this process. */
function timeHere(clients: number): number {
  const curve = { maxAttempts: 6, initialDelayMs: 100, maxDelayMs: 3000 };
  const started = performance.now();
  for (const jitterType of ["NONE", "EQUAL", "FULL", "DECORRELATED"] as const) {
    herd({ ...curve, jitterType }, { clients, windowMs: 10 });
  }
  return performance.now() - started;
}

/** Starts a worker that only responds. */
async function startEcho(page: Page): Promise<void> {
  await page.route("**/echo.js", (route) =>
    route.fulfill({
      contentType: "text/javascript",
      body: "addEventListener('message', () => postMessage(0));",
    }),
  );
  await page.evaluate(async () => {
    const echo = new Worker("./echo.js", { type: "module" });
    Object.assign(globalThis, { echo });
    await new Promise((resolve) => {
      echo.onmessage = resolve;
      echo.postMessage(0);
    });
  });
}

/** Measures four worker responses and a frame in the same page, without counting or drawing. */
function timeToEcho(page: Page): Promise<number> {
  return page.evaluate(async () => {
    const { echo } = globalThis as unknown as { readonly echo: Worker };
    const started = performance.now();
    for (let strategy = 0; strategy < 4; strategy++) {
      await new Promise((resolve) => {
        echo.onmessage = resolve;
        echo.postMessage(0);
      });
    }
    await new Promise(requestAnimationFrame);
    return performance.now() - started;
  });
}

/**
 * Test machines are shared. Each round measures the page and then a reference. A fast page passes in
 * at least one of several rounds, a slow page in none.
 */
async function inSomeRound(rounds: number, round: (index: number) => Promise<boolean>) {
  for (let index = 0; index < rounds; index++) if (await round(index)) return true;
  return false;
}

describe("speed", () => {
  test("a million clients are counted within a second, and the page stays responsive", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#herd`);
    await peaksOf(page);
    const isQuick = await inSomeRound(10, async (index) => {
      await watchFrames(page);
      const tookMs = await timeToDraw(page, 999_980 + index);
      const gapMs = await longestGap(page);
      // On a busy machine Node is slow too, and then the page may be as slow.
      const hereMs = timeHere(1_000_000);
      process.stdout.write(
        `1,000,000 clients, four strategies: ${Math.round(tookMs)} ms (${Math.round(hereMs)} in Node), longest gap ${Math.round(gapMs)} ms\n`,
      );
      return tookMs < Math.max(1000, 1.5 * hereMs) && gapMs < Math.max(50, tookMs / 10);
    });
    expect(isQuick).toBe(true);
    await page.context().close();
  });

  test("ten thousand clients follow the slider: four strategies are counted per frame", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#herd`);
    await peaksOf(page);
    await startEcho(page);
    const isQuick = await inSomeRound(40, async (index) => {
      const tookMs = await timeToDraw(page, 9980 + index);
      const echoMs = await timeToEcho(page);
      const hereMs = Math.min(...[1, 2, 3].map(() => timeHere(10_000)));
      process.stdout.write(
        `10,000 clients, four strategies: ${Math.round(tookMs)} ms until drawn (${Math.round(echoMs)} for nothing, ${Math.round(hereMs)} in Node)\n`,
      );
      // Counted within one frame of 16.7 ms and drawn with the next.
      return tookMs < Math.max(34, echoMs + 17 + 1.5 * hereMs);
    });
    expect(isQuick).toBe(true);
    await page.context().close();
  });

  test("only the newest request waits: a slider shows the result of its last position", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#herd`);
    await peaksOf(page);
    await page.evaluate(() => {
      const [slider] = document.querySelectorAll<HTMLInputElement>("input[type=range]");
      for (let position = 0; position <= 1000; position += 5) {
        if (slider === undefined) break;
        slider.value = String(position);
        slider.dispatchEvent(new Event("input", { bubbles: true }));
      }
    });
    await type(page, "Clients", 300);
    const printed = redrive("-N", "300", "--compare", "none,equal,full,decorrelated");
    expect(await peaksOf(page)).toEqual(rowsOf(printed));
    await page.context().close();
  });
});
