/** The advisor in a real browser: a conversation by keyboard that ends where `redrive advise` does. */
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

/** The policy at the end in words, once it is what the answers lead to. */
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

describe("a link of the command line", () => {
  const cases = [
    "--idempotent key --clients 400 --waits service --outage 8s",
    "--background yes --outage 2h --shards 3",
    "--errors permanent",
  ];

  test.each(cases)("opens the same answers and gives the same policy: %s", async (flags) => {
    const { url, ...told } = printedJson<{ readonly url: string; readonly policy: object }>(
      opened.site,
      "advise",
      ...flags.split(" "),
      "--url",
    );
    const { page, complaints } = await openPage(opened.browser, onSite(opened.site, url));
    expect(await headline(page)).toBe(policySummary(told.policy));
    const { name, body } = await exported(page, "JSON");
    expect(name).toBe("redrive-advice.json");
    expect(JSON.parse(body.toString())).toEqual(told);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("that answers no question is told in a sentence", async () => {
    const bad = linkOf({ tiers: 9 });
    const { page } = await openPage(opened.browser, bad);
    expect(await page.getByRole("alert").first().textContent()).toContain(
      "tiers must be a whole number from 1 to 8, got 9",
    );
    await page.context().close();
  });
});

describe("the conversation", () => {
  /** The keyboard comes to the first answer of each question by itself. */
  test("goes by keyboard alone, one question at a time, and ends at the policy", async () => {
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
      "layers",
      "parts that fail",
    ];
    for (const words of expected) {
      await page.keyboard.press("Enter");
      await page.locator(".question legend", { hasText: words }).waitFor();
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
      tiers: 1,
      shards: 1,
    };
    expect(await headline(page)).toBe(policySummary(advise(answers).policy));
    expect(await page.evaluate(() => document.activeElement?.className)).toBe("headline");
    expect(await page.locator(".question").count()).toBe(0);
    await page.context().close();
  });

  test("shows what each answer set, and grows the policy beside", async () => {
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
    expect(await row.textContent()).toContain("sets idempotency key required");
    expect(await page.locator(".outcome, .advised").count()).toBe(0);
    await page.context().close();
  });

  test("an answer can be changed above, and the policy follows", async () => {
    const { page } = await openPage(opened.browser, linkOf({ waits: "service", outageMs: 8000 }));
    await headline(page);
    await page.getByRole("button", { name: /^Change: What is the longest outage/u }).click();
    await page.getByLabel("or exactly").fill("2");
    await page.getByLabel("Unit").selectOption({ label: "min" });
    await page.getByRole("button", { name: "Use this" }).click();
    const told = policySummary(advise({ waits: "service", outageMs: 120_000 }).policy);
    expect(await headline(page)).toBe(told);
    expect(await page.evaluate(() => document.activeElement?.getAttribute("aria-label"))).toContain(
      "Change: What is the longest outage",
    );
    await page.context().close();
  });

  test("a number out of range is refused with its range, and the question stays", async () => {
    const { page } = await openPage(opened.browser, linkOf({ tiers: 2 }));
    await page.getByRole("button", { name: /^Change: How many layers/u }).click();
    await page.getByLabel("or exactly").fill("9");
    await page.keyboard.press("Enter");
    await eventually(() => page.locator(".number-answer .problem").textContent()).toBe(
      "A whole number from 1 to 8, please.",
    );
    expect(await question(page).textContent()).toContain("How many layers");
    await page.context().close();
  });

  test("the rest can be left to what is usual, and is told as assumed", async () => {
    const { page } = await openPage(opened.browser, `${opened.site.url}#advisor`);
    await page.getByRole("button", { name: "Yes" }).first().click();
    await page.getByRole("button", { name: /^Assume what is usual/u }).click();
    await headline(page);
    expect(await page.locator(".answer.assumed").count()).toBe(8);
    expect(await headline(page)).toBe(policySummary(advise({}).policy));
    await page.context().close();
  });
});

describe("what comes of it", () => {
  const ANSWERS: Answers = { clients: "very-many", waits: "service", outageMs: 8000 };

  test("stands with reasons, the difference from the usual tree, lint and code", async () => {
    const { page } = await openPage(opened.browser, linkOf(ANSWERS));
    const advice = advise(ANSWERS);
    await settled(page);
    expect(await page.locator(".lint-summary").textContent()).toContain("nothing that hurts");
    expect(await page.locator(".reasons li").allTextContents()).toEqual(advice.reasons);
    const difference = page.locator(".card", { hasText: "usual decision tree" });
    expect(await difference.textContent()).toContain(advice.differsFromUsual?.usual);
    const code = page.locator(".code");
    expect(await code.textContent()).toContain("destination(");
    for (const [label, words] of [
      ["p-retry", "pRetry("],
      ["cockatiel", "ExponentialBackoff"],
      ["AWS SDK", "maxAttempts"],
      ["gRPC", "retryPolicy"],
    ] as const) {
      await page.getByRole("radio", { name: label }).check({ force: true });
      await eventually(() => code.textContent()).toContain(words);
    }
    await page.context().close();
  });

  test.each(["Curve", "Herd", "System"])("opens in %s", async (view) => {
    const { page, complaints } = await openPage(opened.browser, linkOf(ANSWERS));
    await settled(page);
    await page.locator(".openings a", { hasText: view }).click();
    await page.locator(`nav a[aria-current=page]:has-text("${view}")`).waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("its code is a file", async () => {
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
    "axe finds nothing serious in %s at %i px, and nothing scrolls sideways",
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
