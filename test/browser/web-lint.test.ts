/** The lint panel in a real browser: findings beside the controls, each with a Fix button. */
// needs: chromium, build
import { type CallsDocument, lint } from "@redrive/simulator";
import { encodeRun, type SharedRun } from "@redrive/simulator/share";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import {
  eventually,
  holdRequests,
  openPage,
  seriousFindings,
  serveStatically,
  settled,
  siteInChromium,
} from "./web-pages.ts";

/** No jitter, no budget, and waits that end long before the outage. */
const FLAWED: CallsDocument = {
  name: "flawed",
  horizonMs: 20_000,
  clients: { kind: "OPEN", count: 50, ratePerSecond: 50 },
  tiers: [
    {
      destination: {
        policy: {
          jitterType: "NONE",
          maxAttempts: 4,
          initialDelayMs: 100,
          respectRetryAfter: false,
        },
      },
      server: { capacityPerSecond: 100, queueMs: 500 },
    },
  ],
  timeline: [{ kind: "OUTAGE", atMs: 5000, forMs: 8000 }],
};
const SUBJECT = { policy: FLAWED.tiers?.[0]?.destination?.policy ?? {} };
const CONTEXT = { clients: 50, outageMs: 8000, shards: 1, breakerPerShard: false };

const opened = siteInChromium(serveStatically);
const addressOf = (run: SharedRun) => `${opened.site.url}#${encodeRun(run)}`;
const address = () => addressOf({ view: "system", seed: 1, scenarios: [FLAWED] });

const summary = (page: Page) => page.locator(".lint .lint-summary");

/** The rule ids in the summary, once lint has finished. */
async function idsOn(page: Page): Promise<readonly string[]> {
  await summary(page).waitFor();
  await settled(page);
  const text = (await summary(page).textContent()) ?? "";
  return /: (.*)\.$/u.exec(text)?.[1]?.split(", ") ?? [];
}

describe("lint beside the controls", () => {
  test("shows the findings of lint for the same documents, most severe first", async () => {
    const { page, messages } = await openPage(opened.browser, address());
    const expected = lint(SUBJECT, CONTEXT);
    expect(await idsOn(page)).toEqual(expected.map(({ id }) => id));
    const sentences = await page.locator(".finding > p:nth-of-type(2)").allTextContents();
    expect(sentences).toEqual(expected.map(({ sentence }) => sentence));
    const docs = page.locator(".finding").first().locator(".rule-docs");
    expect(await docs.locator("summary").textContent()).toBe(expected[0]?.id);
    await docs.locator("summary").click();
    await docs.getByText(/^(?:Error|Warning)/u).waitFor();
    expect(await summary(page).getAttribute("aria-live")).toBe("polite");
    expect(messages).toEqual([]);
    await page.context().close();
  });

  test("a fix takes one key press, changes the controls and removes the finding", async () => {
    const { page } = await openPage(opened.browser, address());
    expect(await idsOn(page)).toContain("no-jitter");
    await page.getByRole("button", { name: /^Fix no-jitter/u }).focus();
    await page.keyboard.press("Enter");
    await page.locator(".finding", { hasText: "no-jitter" }).waitFor({ state: "detached" });
    expect(await page.getByLabel("Strategy").inputValue()).toBe("full");
    const isInPanel = () => document.activeElement?.closest(".lint") !== null;
    expect(await page.evaluate(isInPanel)).toBe(true);
    await page.context().close();
  });

  test("a fix applies to the current document, even before lint has checked it", async () => {
    const { page } = await openPage(opened.browser, address());
    await idsOn(page);
    const release = await holdRequests(page);
    const attempts = page.getByRole("spinbutton", { name: "Attempts" });
    await attempts.fill("7");
    await attempts.press("Enter");
    expect(await summary(page).getAttribute("aria-busy")).toBe("true");
    await page.getByRole("button", { name: /^Fix no-jitter/u }).click();
    await release();
    await page.locator(".finding", { hasText: "no-jitter" }).waitFor({ state: "detached" });
    expect(await page.getByLabel("Strategy").inputValue()).toBe("full");
    expect(await attempts.inputValue()).toBe("7");
    await page.context().close();
  });

  test("applying every fix leaves no Fix button", async () => {
    const { page } = await openPage(opened.browser, address());
    await idsOn(page);
    const fixes = page.getByRole("button", { name: /^Fix /u });
    for (let left = 8; left > 0 && (await fixes.count()) > 0; left--) {
      const before = await summary(page).textContent();
      await fixes.first().click();
      await eventually(() => summary(page).textContent()).not.toBe(before);
      await settled(page);
    }
    expect(await fixes.count()).toBe(0);
    await page.context().close();
  });
});

test("a fix changes the policy of Curve", async () => {
  const policy = { jitterType: "NONE", maxAttempts: 4, initialDelayMs: 100 } as const;
  const curve = encodeRun({ view: "curve", seed: 1, policy, outageMs: 100 });
  const { page } = await openPage(opened.browser, `${opened.site.url}#${curve}`);
  await page.locator(".controls").evaluate((element) => element.scrollIntoView(false));
  const fix = page.getByRole("button", { name: /^Fix no-jitter/u });
  await fix.click();
  await fix.waitFor({ state: "detached" });
  expect(await idsOn(page)).not.toContain("no-jitter");
  expect(await page.getByRole("radio", { name: "Full", exact: false }).first().isChecked()).toBe(
    true,
  );
  await page.context().close();
});

test.each(["light", "dark"] as const)("axe finds nothing serious in %s", async (colorScheme) => {
  const { page } = await openPage(opened.browser, address(), { colorScheme });
  await idsOn(page);
  expect(await seriousFindings(page)).toEqual([]);
  await page.context().close();
});

const PHONE = { viewport: { width: 390, height: 844 }, reducedMotion: "reduce" } as const;

test("findings fit a phone and start collapsed", async () => {
  const { page } = await openPage(opened.browser, address(), PHONE);
  await idsOn(page);
  expect(await page.locator(".finding").first().isVisible()).toBe(false);
  await page.getByRole("button", { name: "Show findings" }).click();
  await page.locator(".finding").first().waitFor();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
  await page.context().close();
});

test("on a phone nothing moves when lint loads", async () => {
  const policy = { jitterType: "NONE", maxAttempts: 4, initialDelayMs: 100 } as const;
  const curve = encodeRun({ view: "curve", seed: 1, policy, outageMs: 8000 });
  const { page } = await openPage(opened.browser, `${opened.site.url}#${curve}`, PHONE);
  const below = () =>
    page
      .locator(".waits")
      .evaluate((element) => Math.round(element.getBoundingClientRect().top + scrollY));
  expect(await page.locator(".lint").count()).toBe(0);
  const before = await below();
  await page.locator(".waits").scrollIntoViewIfNeeded();
  expect((await idsOn(page)).length).toBeGreaterThan(1);
  expect(await below()).toBe(before);
  await page.context().close();
});
