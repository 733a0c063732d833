/** Curve in a real browser: its initial state, re-rolling, and the numbers of the command line. */
// needs: chromium, build
import { formatDuration, formatInteger, formatPercent } from "@redrive/core";
import type { Schedule } from "@redrive/simulator";
import { decodeRun, encodeRun } from "@redrive/simulator/share";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import {
  eventually,
  exported,
  openPage,
  printedJson,
  seriousFindings,
  serveByService,
  settled,
  siteInChromium,
} from "./web-pages.ts";

interface Printed {
  readonly seed: number;
  readonly schedule: Schedule;
  readonly coverage: number;
  readonly url: string;
}

const redrive = (...args: readonly string[]) => printedJson<Printed>(opened.site, ...args);

/** The initial state of the page, as flags. */
const INITIAL = "schedule --full --base 100ms --cap 20s -n 8".split(" ");

const opened = siteInChromium(serveByService);

/** The text of the waits in the table below the chart. */
async function waitsOf(page: Page): Promise<readonly string[]> {
  return await page.locator(".waits tbody tr td:nth-child(2)").allTextContents();
}

async function coverageOf(page: Page): Promise<string> {
  await settled(page);
  return (await page.locator(".coverage strong").textContent()) ?? "";
}

async function stat(page: Page, label: string): Promise<string> {
  await settled(page);
  const found = page.locator(".stat", { has: page.locator(`dt:text-is("${label}")`) });
  return (await found.locator(".stat-value").textContent()) ?? "";
}

describe("it opens", () => {
  test("on full jitter, base 100 ms, 8 attempts, with a dot, a bar and a label for each", async () => {
    const { page } = await openPage(opened.browser, opened.site.url);
    const printed = redrive(...INITIAL);
    expect(await stat(page, "Strategy")).toBe("Full jitter");
    expect(await stat(page, "Attempts")).toBe("8");
    expect(await stat(page, "Sum of waits")).toBe(formatDuration(printed.schedule.sumMs));
    expect(await waitsOf(page)).toEqual([
      "0",
      ...printed.schedule.waits.map((one) => formatInteger(one.delayMs)),
    ]);
    const labels = await page.locator(".chart .wait text.halo").allTextContents();
    expect(labels).toEqual(printed.schedule.waits.map((one) => formatDuration(one.delayMs)));
    expect(await page.locator(".chart .wait circle").count()).toBe(7);
    expect(await page.locator(".chart .wait rect").count()).toBe(7);
    expect(await page.locator(".chart .wait path").count()).toBe(7);
    expect(await coverageOf(page)).toBe(formatPercent(printed.coverage));
    await page.context().close();
  });

  test.each([
    ["a preset", ["--preset", "webhook", "--outage", "10h", "--seed", "7"]],
    ["a decorrelated curve", ["--decorrelated", "--base", "50ms", "-n", "9", "--seed", "abc"]],
    ["a curve that its total budget ends", ["--none", "--base", "5s", "-n", "9"]],
    ["a catalog entry", ["--preset", "aws-standard", "--seed", "3"]],
  ])("%s from a link of the command line, with its numbers", async (_, flags) => {
    const printed = redrive("schedule", ...flags, "--link");
    const { page, messages } = await openPage(opened.browser, printed.url);
    expect(await waitsOf(page)).toEqual([
      "0",
      ...printed.schedule.waits.map((one) => formatInteger(one.delayMs)),
    ]);
    expect(await coverageOf(page)).toBe(formatPercent(printed.coverage));
    expect(messages).toEqual([]);
    await page.context().close();
  });
});

describe("re-roll", () => {
  test("changes a curve with jitter, and not one without", async () => {
    const { page } = await openPage(opened.browser, opened.site.url);
    const before = await waitsOf(page);
    await page.getByRole("button", { name: "Re-roll" }).click();
    await eventually(() => waitsOf(page)).not.toEqual(before);
    await page.getByRole("radio", { name: "Exponential" }).check();
    const plain = ["0", "100", "200", "400", "800", "1,600", "3,200", "6,400"];
    await eventually(() => waitsOf(page)).toEqual(plain);
    const seed = () => page.locator(".stat-note").first().textContent();
    const plainSeed = await seed();
    await page.keyboard.press("r");
    await eventually(seed).not.toBe(plainSeed);
    expect(await waitsOf(page)).toEqual(plain);
    await page.context().close();
  });

  test("is part of the link: a new page shows the same numbers", async () => {
    const { page } = await openPage(opened.browser, opened.site.url);
    await page.getByRole("button", { name: "Re-roll" }).click();
    await page.getByRole("spinbutton", { name: "Attempts" }).fill("6");
    await page.getByRole("spinbutton", { name: "Attempts" }).press("Enter");
    await eventually(() => decodeRun(new URL(page.url()).hash)).toMatchObject({
      run: { policy: { maxAttempts: 6 } },
    });
    const other = await openPage(opened.browser, page.url());
    const waits = await waitsOf(other.page);
    expect(waits).toHaveLength(6);
    expect(await waitsOf(page)).toEqual(waits);
    const coverage = await coverageOf(other.page);
    await eventually(() => coverageOf(page)).toBe(coverage);
    await page.context().close();
    await other.page.context().close();
  });
});

describe("the outage bar", () => {
  const seconds = async (page: Page) =>
    Number(await page.getByRole("spinbutton", { name: "Outage" }).inputValue()) / 1000;

  test("can be dragged by mouse, and the coverage follows", async () => {
    const { page } = await openPage(opened.browser, opened.site.url);
    const coverage = await coverageOf(page);
    const handle = page.getByRole("slider", { name: "End of the outage" });
    await handle.scrollIntoViewIfNeeded();
    const box = (await handle.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
    const at = (share: number) => 10 + box.x + (box.width - 20) * share;
    await page.mouse.move(at(8 / 15), box.y + box.height / 2);
    await page.mouse.down();
    await page.mouse.move(at(3 / 15), box.y + box.height / 2, { steps: 5 });
    await page.mouse.up();
    await eventually(() => seconds(page)).toBeCloseTo(3, 0);
    await eventually(async () => Number.parseFloat(await coverageOf(page))).toBeGreaterThan(
      Number.parseFloat(coverage),
    );
    await page.context().close();
  });

  test("can be moved by keyboard, and has a value text", async () => {
    const { page } = await openPage(opened.browser, opened.site.url);
    const handle = page.getByRole("slider", { name: "End of the outage" });
    await handle.focus();
    const before = await seconds(page);
    await page.keyboard.press("ArrowRight");
    await eventually(() => seconds(page)).toBeGreaterThan(before);
    expect(await handle.getAttribute("aria-valuetext")).toBe(
      formatDuration((await seconds(page)) * 1000),
    );
    await page.context().close();
  });

  test("can be dragged by touch", async () => {
    const { page } = await openPage(opened.browser, opened.site.url, {
      hasTouch: true,
      viewport: { width: 390, height: 844 },
    });
    const handle = page.getByRole("slider", { name: "End of the outage" });
    // On a phone the lint panel is above it and moves it when it loads.
    await page.locator(".controls > :last-child").scrollIntoViewIfNeeded();
    await page.locator(".lint-summary").waitFor();
    await settled(page);
    await handle.scrollIntoViewIfNeeded();
    const box = (await handle.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
    const cdp = await page.context().newCDPSession(page);
    const touch = async (type: "touchStart" | "touchMove" | "touchEnd", share: number) =>
      await cdp.send("Input.dispatchTouchEvent", {
        type,
        touchPoints:
          type === "touchEnd"
            ? []
            : [{ x: 10 + box.x + (box.width - 20) * share, y: box.y + box.height / 2 }],
      });
    await touch("touchStart", 8 / 15);
    for (const share of [0.5, 0.4, 0.3]) await touch("touchMove", share);
    await touch("touchEnd", 0);
    await eventually(() => seconds(page)).toBeCloseTo(4.5, 0);
    await page.context().close();
  });
});

describe("the controls", () => {
  test("a typed list is drawn if it is valid, and shows an error if not", async () => {
    const { page } = await openPage(opened.browser, opened.site.url);
    await page.getByRole("radio", { name: "Custom list" }).check();
    const list = page.getByRole("textbox", { name: "List of waits" });
    await list.fill("1s, 2parsecs");
    await list.blur();
    await page.getByRole("alert").filter({ hasText: "is not a wait" }).waitFor();
    await list.fill("1s, 2s, 500ms");
    await list.blur();
    await eventually(() => waitsOf(page)).toEqual(["0", "1,000", "2,000", "500"]);
    await page.getByRole("radio", { name: "Full jitter" }).check();
    const value = (name: string) => page.getByRole("spinbutton", { name }).inputValue();
    expect([await value("Attempts"), await value("Max")]).toEqual(["8", "20000"]);
    await page.getByRole("spinbutton", { name: "Base" }).fill("9999999");
    await page.keyboard.press("Enter");
    await page.getByText("The deadline must be at least").waitFor();
    await page.context().close();
  });

  test("a Retry-After hint is the minimum of every wait", async () => {
    const { page } = await openPage(opened.browser, opened.site.url);
    const field = page.getByRole("spinbutton", { name: "Retry-After floor" });
    await field.fill("1000");
    await field.press("Enter");
    const minWait = async () =>
      Math.min(...(await waitsOf(page)).slice(1).map((text) => Number(text.replace(",", ""))));
    await eventually(minWait).toBeGreaterThanOrEqual(1000);
    await page.context().close();
  });

  test("a preset sets them", async () => {
    const { page } = await openPage(opened.browser, opened.site.url);
    await page.getByRole("combobox", { name: "Preset" }).selectOption("interactive");
    const value = (name: string) => page.getByRole("spinbutton", { name }).inputValue();
    await eventually(() => value("Base")).toBe("50");
    expect(await value("Attempts")).toBe("3");
    await page.context().close();
  });

  test("all can be reached and used with the keyboard only", async () => {
    const { page } = await openPage(opened.browser, opened.site.url);
    const base = page.getByRole("slider", { name: "Base" });
    for (let presses = 0; presses < 60; presses++) {
      await page.keyboard.press("Tab");
      if (await base.evaluate((element) => element === document.activeElement)) break;
    }
    const before = await page.getByRole("spinbutton", { name: "Base" }).inputValue();
    await page.keyboard.press("ArrowRight");
    await eventually(() => page.getByRole("spinbutton", { name: "Base" }).inputValue()).not.toBe(
      before,
    );
    const ring = await base.evaluate((element) => getComputedStyle(element).outlineStyle);
    expect(ring).toBe("solid");
    await page.context().close();
  });
});

test("the scale is part of the link: it is logarithmic at first", async () => {
  const { page } = await openPage(opened.browser, opened.site.url);
  const toggle = page.getByLabel("logarithmic");
  expect(await toggle.isChecked()).toBe(true);
  await toggle.uncheck();
  await eventually(() => decodeRun(new URL(page.url()).hash)).toMatchObject({
    run: { log: false },
  });
  await page.reload();
  expect(await toggle.isChecked()).toBe(false);
  await page.context().close();
});

test("the chart can be read at every size: no label is cut off, and the pointer reads a column", async () => {
  const delays = { initialDelayMs: 60_000, maxDelayMs: 3_600_000, totalBudgetMs: 864_000_000 };
  const policy = { ...delays, maxAttempts: 20 };
  const hash = encodeRun({ view: "curve", seed: 1, policy });
  const { page } = await openPage(opened.browser, `${opened.site.url}#${hash}`);
  const chart = page.locator(".chart").first();
  const ticks = await chart.locator("text.tick.end").allTextContents();
  expect(ticks).toEqual(["0", "10 ms", "100 ms", "1 s", "10 s", "1 min", "10 min", "1 h"]);
  const lefts = await chart
    .locator("text.tick.end")
    .evaluateAll((all) => all.map((one) => (one as SVGTextElement).getBBox().x));
  expect(Math.min(...lefts)).toBeGreaterThanOrEqual(0);
  expect(await chart.locator(".wait text.halo").count()).toBe(0);
  const box = (await chart.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
  await page.mouse.move(box.x + box.width - 20, box.y + 100);
  await page.getByText("Attempt 20: after a wait of").waitFor();
  await page.context().close();
});

describe("the strategy table", () => {
  test("measures every strategy", async () => {
    const { page } = await openPage(opened.browser, opened.site.url);
    await page.locator(".waits").scrollIntoViewIfNeeded();
    await page.mouse.wheel(0, 5000);
    const row = (name: string) =>
      page.locator(".strategies tbody tr", { has: page.locator(`th:text-is("${name}")`) });
    await row("Full jitter").waitFor();
    await settled(page);
    const cells = await row("Exponential").locator("td.number").allTextContents();
    expect(cells).toEqual(["100 %", "12.7 s", "1", "100 %"]);
    const full = await row("Full jitter").locator("td.number").allTextContents();
    expect(Number.parseFloat(full[0] ?? "")).toBeLessThan(25);
    const bucket = await row("Exponential + token bucket").locator("td.number").allTextContents();
    expect(bucket[0]).toBe("10 %");
    expect(await page.locator("path.overlay").count()).toBe(16);
    expect(await seriousFindings(page)).toEqual([]);
    await page.context().close();
  });
});

describe("exports", () => {
  test("are valid files with the numbers of the page", async () => {
    const printed = redrive(...INITIAL);
    const { page, messages } = await openPage(opened.browser, opened.site.url);
    const png = await exported(page, "PNG");
    expect(png.name).toBe("redrive-curve.png");
    expect(png.body.subarray(1, 4).toString()).toBe("PNG");
    expect(png.body.length).toBeGreaterThan(5000);
    const svg = (await exported(page, "SVG")).body.toString();
    expect(svg).toContain('xmlns="http://www.w3.org/2000/svg"');
    const parsed = await page.evaluate((text) => {
      const document = new DOMParser().parseFromString(text, "image/svg+xml");
      return [document.documentElement.tagName, document.querySelectorAll("circle").length];
    }, svg);
    expect(parsed).toEqual(["svg", 8]);
    expect(svg).toContain("seed 1");
    expect(svg).toContain(">possible range</text>");
    const csv = (await exported(page, "CSV")).body.toString().trim().split("\n");
    expect(csv.map((line) => line.split(",")[1])).toEqual([
      "waitMs",
      "0",
      ...printed.schedule.waits.map((one) => String(one.delayMs)),
    ]);
    const json = JSON.parse((await exported(page, "JSON")).body.toString());
    expect(json).toEqual(printed);
    expect(messages).toEqual([]);
    await page.context().close();
  });

  test("include code for other libraries", async () => {
    const { page } = await openPage(opened.browser, opened.site.url);
    await page.getByRole("button", { name: "Export" }).click();
    await page.locator(".menu-item", { hasText: "Code" }).click();
    const code = page.locator("dialog[open] code");
    await code.waitFor();
    expect(await code.textContent()).toContain("maxAttempts: 8");
    for (const [label, text] of [
      ["p-retry", "retries: 7"],
      ["cockatiel", "fullJitterGenerator"],
      ["AWS SDK", "max_attempts = 8"],
      ["gRPC", '"initialBackoff": "0.1s"'],
      ["Python", "stop_after_attempt(8)"],
      ["C#", "MaxRetryAttempts = 7"],
    ] as const) {
      await page.getByRole("radio", { name: label }).check();
      await eventually(() => code.textContent()).toContain(text);
    }
    expect(await seriousFindings(page)).toEqual([]);
    await page.context().close();
  });
});

test.each([
  ["a seed", { seed: 1.5e300 }],
  ["a hint", { retryAfterMs: -1 }],
  ["an outage", { outageMs: 1e99 }],
  ["a name", { policy: "no such preset" }],
  ["a list", { policy: { delaysMs: [] } }],
])("the page works after a link with an invalid value: %s", async (_, part) => {
  const hash = encodeRun({ view: "curve", seed: 1, policy: {}, ...part });
  const { page } = await openPage(opened.browser, `${opened.site.url}#${hash}`);
  await page.getByRole("button", { name: "Re-roll" }).click();
  expect((await waitsOf(page)).length).toBeGreaterThan(1);
  await page.context().close();
});

test("a link with an invalid policy shows an error, and the view opens with its defaults", async () => {
  const hash = encodeRun({ view: "curve", seed: 1, policy: { maxAttempts: -3 } });
  const { page } = await openPage(opened.browser, `${opened.site.url}#${hash}`);
  expect(await page.getByRole("alert").textContent()).toContain("maxAttempts");
  expect(await stat(page, "Attempts")).toBe("8");
  await page.context().close();
});
