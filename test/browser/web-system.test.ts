/** System in a real browser: the verdict, the guards and the phase track, by mouse, touch and keyboard. */
// needs: chromium, build
import { formatInteger } from "@redrive/core";
import { type CallsDocument, type PhaseDocument, scenarios, simulate } from "@redrive/simulator";
import { decodeRun } from "@redrive/simulator/share";
import type { BrowserContextOptions, Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import {
  eventually,
  openPage,
  seriousFindings,
  serveByService,
  settled,
  siteInChromium,
} from "./web-pages.ts";

const opened = siteInChromium(serveByService);

const metastable = scenarios["metastable"] as CallsDocument;

/** Opens the view and waits for its first run. */
async function openSystem(options: BrowserContextOptions = {}, hash = "system") {
  const shown = await openPage(opened.browser, `${opened.site.url}#${hash}`, options);
  await settled(shown.page);
  return shown;
}

/** The scenario in the address, once it matches. */
async function documentWith(page: Page, matches: (document: CallsDocument) => boolean) {
  for (;;) {
    const url = page.url();
    const decoded = decodeRun(new URL(url).hash);
    const entry =
      "run" in decoded && decoded.run.view === "system" ? decoded.run.scenarios[0] : "metastable";
    const document = typeof entry === "string" ? scenarios[entry] : entry;
    if (document !== undefined && "clients" in document && matches(document)) return document;
    await page.waitForFunction((before) => location.href !== before, url);
  }
}

function phaseWith(page: Page, matches: (phase: PhaseDocument) => boolean): Promise<CallsDocument> {
  return documentWith(page, ({ timeline = [] }) => timeline.some(matches));
}

/** The verdict, once it belongs to the current scenario. */
async function verdict(page: Page): Promise<string | null> {
  await settled(page);
  return await page.locator(".verdict").textContent();
}

describe("the initial scenario", () => {
  test("opens with the verdict and figures of the simulator", async () => {
    const { page, messages } = await openSystem();
    const report = simulate(metastable, { seed: 1 });
    expect(await verdict(page)).toBe("never recovers: 700 x 4 > 1,000");
    expect(await verdict(page)).toBe(report.verdict);
    const stat = (label: string) =>
      page.locator(".stat", { hasText: label }).locator(".stat-value").textContent();
    expect(await stat("Amplification")).toBe("3.38 x");
    expect(await stat("Recovers")).toBe("never");
    expect(await stat("Goodput after")).toBe("0/s");
    expect(await page.locator(".explanation").textContent()).toMatch(/^[^.]+\. [^.]+\.$/u);
    expect(messages).toEqual([]);
    await page.context().close();
  });

  test("each guard takes effect immediately, and the run without guards is drawn behind", async () => {
    const { page } = await openSystem();
    const verdicts = new Map<string, string | null>();
    for (const name of ["Retry budget", "Circuit breaker", "Adaptive concurrency", "Hedge"]) {
      const guard = page.getByLabel(name, { exact: true });
      await guard.check();
      await page.locator(".line-attempts.ghost").waitFor();
      verdicts.set(name, await verdict(page));
      await guard.uncheck();
      await page.locator(".line-attempts.ghost").waitFor({ state: "detached" });
    }
    expect(verdicts.get("Retry budget")).toMatch(/^recovers .* 700 x 1\.05 < 1,000/u);
    expect(verdicts.get("Circuit breaker")).toMatch(/^recovers /u);
    expect(verdicts.get("Adaptive concurrency")).toMatch(/^recovers /u);
    expect(verdicts.get("Hedge")).toBe("never recovers: 700 x 4 > 1,000");
    await page.context().close();
  });

  test("nested layers multiply in the verdict", async () => {
    const { page } = await openSystem();
    await page.getByRole("radio", { name: "2 nested" }).check();
    await page.getByText("700 x 16 > 1,000").waitFor();
    await page.getByRole("radio", { name: "one", exact: true }).check();
    await page.getByText("700 x 4 > 1,000").waitFor();
    expect(await page.getByLabel("Preset").inputValue()).toBe("metastable");
    await page.context().close();
  });

  test("a re-roll changes the seed and the figures, but not the verdict", async () => {
    const { page } = await openSystem();
    await page.keyboard.press("r");
    expect(await verdict(page)).toBe("never recovers: 700 x 4 > 1,000");
    const seed = Number(await page.getByLabel("Seed").inputValue());
    expect(seed).not.toBe(1);
    const { attempts, calls } = simulate(metastable, { seed });
    expect(await page.locator(".stat-note").first().textContent()).toBe(
      `${formatInteger(attempts)} attempts for ${formatInteger(calls)} calls`,
    );
    await page.context().close();
  });
});

describe("every shipped scenario", () => {
  test("opens from the menu with the verdict of the simulator", async () => {
    const { page, messages } = await openSystem();
    const names = await page
      .getByLabel("Preset")
      .locator("option")
      .evaluateAll((options) => options.map((option) => (option as HTMLOptionElement).value));
    expect(names.toSorted()).toEqual(Object.keys(scenarios).toSorted());
    for (const name of names) {
      await page.getByLabel("Preset").selectOption(name);
      const { verdict: wanted } = simulate(scenarios[name] as CallsDocument, { seed: 1 });
      expect(await verdict(page)).toBe(wanted);
    }
    expect(messages).toEqual([]);
    await page.context().close();
  });
});

/** The center of a slider on the page. */
async function centerOf(page: Page, name: RegExp) {
  const box = await page.getByRole("slider", { name }).boundingBox();
  if (box === null) throw new Error(`no slider is named ${name}`);
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}

describe("a fault", () => {
  test("can be moved and resized by mouse", async () => {
    const { page } = await openSystem({ viewport: { width: 1280, height: 1400 } });
    const track = await page.locator(".track").boundingBox();
    const second = (track?.width ?? 0) / 60;
    const drag = async (name: RegExp, seconds: number) => {
      // A longer verdict would move the track.
      await settled(page);
      const { x, y } = await centerOf(page, name);
      await page.mouse.move(x, y);
      await page.mouse.down();
      await page.mouse.move(x + (seconds * second) / 2, y, { steps: 3 });
      await page.mouse.move(x + seconds * second, y, { steps: 3 });
      await page.mouse.up();
    };
    await drag(/move$/u, 20);
    await phaseWith(page, ({ atMs, forMs }) => atMs === 30_000 && forMs === 10_000);
    await drag(/end$/u, -5);
    await phaseWith(page, ({ atMs, forMs }) => atMs === 30_000 && forMs === 5000);
    await drag(/start$/u, -10);
    await phaseWith(page, ({ atMs, forMs }) => atMs === 20_000 && forMs === 15_000);
    await page.context().close();
  });

  test("can be moved by touch", async () => {
    const { page } = await openSystem({ hasTouch: true, viewport: { width: 390, height: 844 } });
    await page.locator(".track").scrollIntoViewIfNeeded();
    const width = (await page.locator(".track").boundingBox())?.width ?? 0;
    const { x, y } = await centerOf(page, /move$/u);
    const finger = await page.context().newCDPSession(page);
    const touch = (type: "touchStart" | "touchMove" | "touchEnd", at?: number) =>
      finger.send("Input.dispatchTouchEvent", {
        type,
        touchPoints: at === undefined ? [] : [{ x: at, y }],
      });
    await touch("touchStart", x);
    for (const share of [0.05, 0.1, 0.2, 0.25]) await touch("touchMove", x + share * width);
    await touch("touchEnd");
    await phaseWith(page, ({ atMs }) => atMs > 22_000 && atMs < 28_000);
    await page.context().close();
  });

  test("can be moved, resized, deleted and added with the keyboard only", async () => {
    const { page } = await openSystem();
    await page.getByRole("slider", { name: /move$/u }).focus();
    await page.keyboard.press("ArrowRight");
    await phaseWith(page, ({ atMs, forMs }) => atMs === 10_200 && forMs === 10_000);
    await page.keyboard.press("Tab");
    await page.keyboard.press("PageDown");
    await phaseWith(page, ({ atMs, forMs }) => atMs === 8200 && forMs === 12_000);
    await page.keyboard.press("Tab");
    await page.keyboard.press("ArrowLeft");
    await phaseWith(page, ({ atMs, forMs }) => atMs === 8200 && forMs === 11_800);
    await page.keyboard.press("Delete");
    await documentWith(page, ({ timeline = [] }) => timeline.length === 0);
    await page.getByText("no faults; add one below").waitFor();
    await page.getByRole("button", { name: "Load spike" }).focus();
    await page.keyboard.press("Enter");
    await phaseWith(page, ({ kind }) => kind === "SPIKE");
    await page.getByRole("slider", { name: "Load spike 2 x: move" }).waitFor();
    await page.context().close();
  });

  test("has a form for exact numbers", async () => {
    const { page } = await openSystem();
    await page.getByRole("button", { name: "Partial outage" }).click();
    await page.getByLabel("From").fill("33.5");
    await page.getByLabel("For", { exact: true }).fill("7.25");
    await page.getByLabel("Share of calls that fail").fill("12.5");
    await page.keyboard.press("Tab");
    await phaseWith(
      page,
      ({ atMs, forMs, share }) => atMs === 33_500 && forMs === 7250 && share === 0.125,
    );
    await page.getByLabel("From").fill("-4");
    await page.keyboard.press("Tab");
    expect(await page.getByLabel("From").inputValue()).toBe("0");
    await page.getByRole("button", { name: "Delete" }).click();
    await documentWith(page, ({ timeline = [] }) => timeline.length === 1);
    await page.context().close();
  });

  test("of every kind can be added and is simulated", async () => {
    const { page, messages } = await openSystem();
    for (const name of ["Full outage", "Partial outage", "Slow responses", "Failover"]) {
      await page.getByRole("button", { name }).click();
    }
    const changed = await documentWith(page, ({ timeline = [] }) => timeline.length === 5);
    const { verdict: wanted } = simulate(changed, { seed: 1 });
    await page.locator(".verdict", { hasText: wanted }).waitFor();
    expect(await page.locator("rect.fault").count()).toBe(5);
    expect(messages).toEqual([]);
    await page.context().close();
  });
});

describe("the readout", () => {
  test("shows the counts of the simulator, by mouse and keyboard", async () => {
    const { page } = await openSystem();
    const { series } = simulate(metastable, { seed: 1 });
    // 600 bins of 100 ms in columns of 500 ms: the 51st column starts at 25 s.
    const attempts = series.attempts.subarray(250, 255).reduce((sum, count) => sum + count, 0) * 2;
    const slider = page.getByRole("slider", { name: "Read the chart at" });
    await slider.focus();
    for (let press = 0; press < 50; press++) await page.keyboard.press("ArrowRight");
    const valueText = await slider.getAttribute("aria-valuetext");
    expect(valueText).toContain("25 s to 25.5 s");
    expect(valueText).toContain(`attempts ${attempts.toLocaleString("en")}/s`);
    await slider.blur();
    const area = page.locator(".pointer-area");
    const width = (await area.boundingBox())?.width ?? 0;
    await area.hover({ position: { x: (25.25 / 60) * width, y: 60 } });
    const readout = page.locator(".readout");
    await eventually(() => readout.textContent()).toContain("25 s to 25.5 s");
    expect(await readout.textContent()).toContain(`${attempts.toLocaleString("en")}/s`);
    await page.mouse.move(5, 5);
    await page.locator(".readout", { hasText: "whole run" }).waitFor();
    await page.context().close();
  });
});

describe("accessibility", () => {
  test("a preset, a switch and a slider work with the keyboard only", async () => {
    const { page } = await openSystem();
    const preset = page.getByLabel("Preset");
    await preset.focus();
    // Two entries above the initial one. Typed letters would have to arrive within a second.
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowUp");
    await eventually(() => preset.inputValue()).toBe("open-bounded");
    expect(await verdict(page)).toMatch(/^recovers /u);
    await page.getByLabel("Retry budget").focus();
    await page.keyboard.press("Space");
    await documentWith(page, ({ tiers }) => Boolean(tiers?.[0]?.destination?.retryBudget));
    await page.getByRole("slider", { name: "Attempts", exact: true }).focus();
    await page.keyboard.press("ArrowRight");
    await documentWith(page, ({ tiers }) => {
      const policy = tiers?.[0]?.destination?.policy;
      return typeof policy === "object" && policy.maxAttempts === 5;
    });
    await page.context().close();
  });

  test.each([
    ["light", 1280],
    ["dark", 1280],
    ["light", 390],
    ["dark", 390],
  ] as const)(
    "axe finds nothing serious in %s at %i px with all parts open",
    async (colorScheme, width) => {
      const { page, messages } = await openSystem({
        colorScheme,
        viewport: { width, height: 844 },
      });
      await page.getByLabel("Circuit breaker").check();
      await page.getByRole("button", { name: "Full outage" }).click();
      await page.getByRole("button", { name: "Keep this run" }).click();
      for (const summary of await page.locator("summary:visible").all()) await summary.click();
      await settled(page);
      expect(await seriousFindings(page)).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
      expect(messages).toEqual([]);
      await page.context().close();
    },
  );

  test("reduced motion disables all transitions and animations", async () => {
    const { page } = await openSystem({ reducedMotion: "reduce" });
    const moving = await page.evaluate(
      () =>
        document.getAnimations().length +
        [...document.querySelectorAll(".stage *")].filter(
          (element) => getComputedStyle(element).transitionDuration !== "0s",
        ).length,
    );
    expect(moving).toBe(0);
    await page.context().close();
  });
});
