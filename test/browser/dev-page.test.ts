/** The page of `redrive dev` in a real browser: content, colors, and no violation of its content policy. */
// needs: chromium, build
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { presets } from "@redrive/core";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launchChromium } from "../servers/chromium.ts";

const MAIN = fileURLToPath(new URL("../../apps/cli/dist/main.js", import.meta.url));

const folder = mkdtempSync(join(tmpdir(), "redrive-page-"));
const child = spawn(process.execPath, [MAIN, "dev", "--port", "0"], {
  cwd: folder,
  stdio: ["ignore", "pipe", "inherit"],
});
const ended = once(child, "close");
let browser: Browser;
let url: string;

beforeAll(async () => {
  let text = "";
  while (!text.includes("ready at")) text += await once(child.stdout.setEncoding("utf8"), "data");
  url = /ready at (http:\S+)/u.exec(text)?.[1] ?? "";
  browser = await launchChromium();
});

afterAll(async () => {
  child.kill();
  await browser.close();
  await ended;
  rmSync(folder, { recursive: true });
});

test("lists every preset without console messages", async () => {
  const page = await browser.newPage();
  const messages: string[] = [];
  page.on("console", (message) => messages.push(message.text()));
  page.on("pageerror", (error) => messages.push(error.message));
  await page.goto(url);
  expect(await page.title()).toBe("Redrive");
  expect(await page.locator("tbody tr").count()).toBe(Object.keys(presets).length);
  expect(messages).toEqual([]);
});

test.each(["light", "dark"] as const)("follows the system's %s scheme", async (colorScheme) => {
  const page = await browser.newPage({ colorScheme });
  await page.goto(url);
  const ink = await page.evaluate(() => getComputedStyle(document.body).color);
  expect(ink).toBe(colorScheme === "light" ? "rgb(0, 0, 0)" : "rgb(255, 255, 255)");
});

test("links to the simulator under /ui/", async () => {
  const page = await browser.newPage();
  await page.goto(url);
  await page.getByRole("link", { name: "the simulator" }).click();
  await page.locator(".stat-value", { hasText: "Full jitter" }).waitFor();
  expect(new URL(page.url()).pathname).toBe("/ui/simulator");
});

test("fits a phone: only the table scrolls horizontally", async () => {
  const page = await browser.newPage({ viewport: { width: 360, height: 640 } });
  await page.goto(url);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
});
