/** Chromium for tests renders real pages and runs their scripts. */
// needs: chromium
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launchChromium } from "./chromium.ts";

let browser: Browser;

beforeAll(async () => {
  browser = await launchChromium();
});

afterAll(async () => {
  await browser.close();
});

test("reads a page's title and runs its script", async () => {
  const page = await browser.newPage();
  await page.setContent(
    "<title>Redrive</title><p></p><script>document.querySelector('p').append(6 * 7)</script>",
  );
  expect(await page.title()).toBe("Redrive");
  expect(await page.textContent("p")).toBe("42");
});
