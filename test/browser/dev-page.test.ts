/** The page of `redrive dev` in a real browser: shown, styled, and clean under its own policy. */
// needs: chromium, build
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { presets } from "@redrive/core";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launchChromium } from "../servers/chromium.ts";

const MAIN = fileURLToPath(new URL("../../apps/cli/dist/main.js", import.meta.url));

const child = spawn(process.execPath, [MAIN, "dev", "--port", "0"], {
  stdio: ["ignore", "pipe", "inherit"],
});
let browser: Browser;
let url: string;

beforeAll(async () => {
  const [line] = await once(child.stdout.setEncoding("utf8"), "data");
  url = /http:\S+/u.exec(line)?.[0] ?? "";
  browser = await launchChromium();
});

afterAll(async () => {
  child.kill();
  await browser.close();
});

test("lists every preset, with no complaint from the browser", async () => {
  const page = await browser.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  await page.goto(url);
  expect(await page.title()).toBe("Redrive");
  expect(await page.locator("tbody tr").count()).toBe(Object.keys(presets).length);
  expect(complaints).toEqual([]);
});

test.each(["light", "dark"] as const)("follows the system's %s scheme", async (colorScheme) => {
  const page = await browser.newPage({ colorScheme });
  await page.goto(url);
  const ink = await page.evaluate(() => getComputedStyle(document.body).color);
  expect(ink).toBe(colorScheme === "light" ? "rgb(0, 0, 0)" : "rgb(255, 255, 255)");
});

test("fits a phone: nothing but the table scrolls sideways", async () => {
  const page = await browser.newPage({ viewport: { width: 360, height: 640 } });
  await page.goto(url);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
});
