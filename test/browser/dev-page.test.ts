/** The pages of `redrive dev` in a real browser: where the ready line leads. */
// needs: chromium, build
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
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

test("the ready line leads to the overview, with a command to paste and no console messages", async () => {
  const page = await browser.newPage();
  const messages: string[] = [];
  page.on("console", (message) => messages.push(message.text()));
  page.on("pageerror", (error) => messages.push(error.message));
  await page.goto(url);
  await page.getByText("The service is ready and has no tasks").waitFor();
  expect(new URL(page.url()).pathname).toBe("/ui/");
  expect(await page.locator(".command pre").textContent()).toContain(`${url}retry-tasks`);
  expect(messages).toEqual([]);
});

test("the menu leads to the simulator under /ui/", async () => {
  const page = await browser.newPage();
  await page.goto(url);
  await page.getByRole("link", { name: "Simulator" }).click();
  await page.locator(".stat-value", { hasText: "Full jitter" }).waitFor();
  expect(new URL(page.url()).pathname).toBe("/ui/simulator");
});
