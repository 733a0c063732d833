/** Advisor in a real browser: works by keyboard and gives the result of `redrive advise`. */
// needs: chromium, build
import { type Answers, advise } from "@redrive/simulator";
import { encodeRun } from "@redrive/simulator/share";
import { policySummary } from "@redrive/simulator/text";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import {
  eventually,
  exported,
  onSite,
  openPage,
  printedJson,
  seriousFindings,
  serveStatically,
  settled,
  siteInChromium,
} from "./web-pages.ts";

const opened = siteInChromium(serveStatically);

const linkOf = (answers: Answers) =>
  `${opened.site.url}#${encodeRun({ view: "advisor", answers })}`;

const question = (page: Page) => page.locator(".question legend");

/** The text of the advised policy, once it is current. */
async function headline(page: Page): Promise<string | null> {
  await settled(page);
  return await page.locator(".advised .headline").textContent();
}

function fieldsOn(page: Page): Promise<readonly string[]> {
  return page
    .locator(".so-far > div")
    .evaluateAll((rows) =>
      rows.map((row) => [...row.children].map((cell) => cell.textContent).join(": ")),
    );
}

describe("a link from the command line", () => {
  const cases = [
    "--idempotent key --clients 400 --waits service --outage 8s",
    "--background yes --outage 2h --shards 3",
    "--errors permanent",
  ];

  test.each(cases)("opens the same answers and gives the same policy: %s", async (flags) => {
    const { url, ...printed } = printedJson<{ readonly url: string; readonly policy: object }>(
      opened.site,
      "advise",
      ...flags.split(" "),
      "--link",
    );
    const { page, messages } = await openPage(opened.browser, onSite(opened.site, url));
    expect(await headline(page)).toBe(policySummary(printed.policy));
    const { name, body } = await exported(page, "JSON");
    expect(name).toBe("redrive-advice.json");
    expect(JSON.parse(body.toString())).toEqual(printed);
    expect(messages).toEqual([]);
    await page.context().close();
  });

  test("with an invalid answer shows an error", async () => {
    const bad = linkOf({ tiers: 9 });
    const { page } = await openPage(opened.browser, bad);
    expect(await page.getByRole("alert").first().textContent()).toContain(
      "tiers must be a whole number from 1 to 8, got 9",
    );
    await page.context().close();
  });
});

describe("the conversation", () => {
  /** Focus moves to the first answer of each question automatically. */
  test("works with the keyboard only, one question at a time, and ends at the policy", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#advisor`);
    expect(await page.locator(".question").count()).toBe(1);
    await page.getByRole("button", { name: "Yes" }).first().focus();
    const expected = [
      "idempotent",
      "concurrent clients",
      "minimum wait",
      "background job",
      "Who waits",
      "longest outage",
      "one process",
      "layers",
      "fail independently",
    ];
    for (const text of expected) {
      await page.keyboard.press("Enter");
      await page.locator(".question legend", { hasText: text }).waitFor();
    }
    await page.keyboard.press("Enter");
    const answers: Answers = {
      transient: true,
      idempotent: "yes",
      clients: "few",
      minimumWait: true,
      background: true,
      waits: "person",
      outageMs: 1000,
      callsPerProcess: 1,
      tiers: 1,
      shards: 1,
    };
    expect(await headline(page)).toBe(policySummary(advise(answers).policy));
    expect(await page.evaluate(() => document.activeElement?.className)).toBe("headline");
    expect(await page.locator(".question").count()).toBe(0);
    await page.context().close();
  });

  test("shows what each answer sets, and previews the policy", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#advisor`);
    await settled(page);
    expect(await page.locator(".so-far .usual").count()).toBeGreaterThan(0);
    expect(await page.locator(".so-far .set").count()).toBe(0);
    await page.getByRole("button", { name: "Yes" }).first().click();
    await page.getByRole("button", { name: "With an idempotency key" }).click();
    await settled(page);
    expect(await page.locator(".so-far .new").allTextContents()).toContain(
      "Idempotency keyrequired",
    );
    const row = page.locator(".answer-row", { hasText: "idempotent" });
    expect(await row.textContent()).toContain("sets idempotency key to required");
    expect(await page.locator(".outcome, .advised").count()).toBe(0);
    await page.context().close();
  });

  test("changing an answer changes the policy", async () => {
    const { page } = await openPage(opened.browser, linkOf({ waits: "service", outageMs: 8000 }));
    await headline(page);
    await page.getByRole("button", { name: /^Change: What is the longest outage/u }).click();
    await page.getByLabel("or enter a number").fill("2");
    await page.getByLabel("Unit").selectOption({ label: "min" });
    await page.getByRole("button", { name: "Use this" }).click();
    const expected = policySummary(advise({ waits: "service", outageMs: 120_000 }).policy);
    expect(await headline(page)).toBe(expected);
    expect(await page.evaluate(() => document.activeElement?.getAttribute("aria-label"))).toContain(
      "Change: What is the longest outage",
    );
    await page.context().close();
  });

  test("a number out of range shows the valid range, and the question stays open", async () => {
    const { page } = await openPage(opened.browser, linkOf({ tiers: 2 }));
    await page.getByRole("button", { name: /^Change: How many layers/u }).click();
    await page.getByLabel("or enter a number").fill("9");
    await page.keyboard.press("Enter");
    await eventually(() => page.locator(".number-answer .problem").textContent()).toBe(
      "Enter a whole number from 1 to 8.",
    );
    expect(await question(page).textContent()).toContain("How many layers");
    await page.context().close();
  });

  test("the remaining questions can use their defaults, which are listed", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#advisor`);
    await page.getByRole("button", { name: "Yes" }).first().click();
    await page.getByRole("button", { name: /^Use the defaults/u }).click();
    await headline(page);
    expect(await page.locator(".answer.default").count()).toBe(9);
    expect(await headline(page)).toBe(policySummary(advise({}).policy));
    await page.context().close();
  });
});

describe("the result", () => {
  const ANSWERS: Answers = { clients: "very-many", waits: "service", outageMs: 8000 };

  test("has reasons, the difference from the usual tree, lint and code", async () => {
    const { page } = await openPage(opened.browser, linkOf(ANSWERS));
    const advice = advise(ANSWERS);
    await settled(page);
    expect(await page.locator(".lint-summary").textContent()).toContain("No findings");
    expect(await page.locator(".reasons li").allTextContents()).toEqual(advice.reasons);
    const difference = page.locator(".card", { hasText: "usual decision tree" });
    expect(await difference.textContent()).toContain(advice.differsFromUsual?.usual);
    const code = page.locator(".code");
    expect(await code.textContent()).toContain("destination(");
    for (const [label, text] of [
      ["p-retry", "pRetry("],
      ["cockatiel", "ExponentialBackoff"],
      ["AWS SDK", "maxAttempts"],
      ["gRPC", "retryPolicy"],
    ] as const) {
      await page.getByRole("radio", { name: label }).check({ force: true });
      await eventually(() => code.textContent()).toContain(text);
    }
    await page.context().close();
  });

  test.each(["Curve", "Herd", "System"])("opens in %s", async (view) => {
    const { page, messages } = await openPage(opened.browser, linkOf(ANSWERS));
    await settled(page);
    await page.locator(".view-links a", { hasText: view }).click();
    await page.locator(`nav a[aria-current=page]:has-text("${view}")`).waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
    expect(messages).toEqual([]);
    await page.context().close();
  });

  test("exports its code as a file", async () => {
    const { page } = await openPage(opened.browser, linkOf(ANSWERS));
    await headline(page);
    const { name, body } = await exported(page, "Code");
    expect(name).toBe("redrive-advice.ts");
    expect(body.toString()).toContain('import { destination } from "redrive";');
    await page.context().close();
  });

  test.each([
    ["light", 1280],
    ["dark", 1280],
    ["light", 390],
  ] as const)(
    "axe finds nothing serious in %s at %i px, and there is no horizontal scrolling",
    async (colorScheme, width) => {
      const options = { colorScheme, viewport: { width, height: 844 } };
      const { page } = await openPage(opened.browser, linkOf(ANSWERS), options);
      await settled(page);
      await page.getByRole("button", { name: /^Change: Who waits/u }).click();
      expect(await seriousFindings(page)).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
      expect((await fieldsOn(page))[0]).toMatch(/^Attempts: \d+$/u);
      await page.context().close();
    },
  );
});
