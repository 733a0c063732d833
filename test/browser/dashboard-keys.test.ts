/** Keys and settings of the dashboard, in a real browser against a service that requires keys. */
// needs: chromium, build
import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@redrive/core";
import { createKey, fileKeyStore, type Scope } from "@redrive/service/http";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launchChromium } from "../servers/chromium.ts";
import { type DashboardService, startDashboardService } from "./dashboard-service.ts";
import { eventually, openPage } from "./web-pages.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-keys-"));
const keys = fileKeyStore(join(folder, "keys.json"), systemClock);
let browser: Browser;
let service: DashboardService;

function addKey(name: string, scopes: readonly Scope[]): string {
  const wanted = { tenantId: "default", scopes, name, now: systemClock.now() };
  const { key, record } = createKey((bytes) => randomFillSync(bytes), wanted);
  keys.add(record);
  return key;
}

const reader = addKey("reader", ["tasks:read", "tasks:create"]);
const admin = addKey("ops", ["admin"]);

beforeAll(async () => {
  [browser, service] = await Promise.all([
    launchChromium(),
    startDashboardService({ keys, alerts: (url) => ({ url: `${url}/200?token=abc` }) }),
  ]);
});

afterAll(async () => {
  await browser.close();
  await service.close();
  rmSync(folder, { recursive: true });
});

test("a key signs the browser in, and its scopes decide what is shown", async () => {
  const { page } = await openPage(browser, `${service.url}/ui/tasks`);
  const field = page.getByLabel("API key");
  await field.fill("rdv_wrong");
  await page.keyboard.press("Enter");
  await page.getByText("this API key is not valid").waitFor();
  await field.fill(reader);
  await page.keyboard.press("Enter");
  await page.getByText("There are no tasks yet").waitFor();
  const taskId = await page.evaluate(async (targetUrl) => {
    const scheduledAt = Math.round(performance.timeOrigin) + 3_600_000;
    const headers = { "content-type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify({ targetUrl, scheduledAt }) };
    return ((await (await fetch("../retry-tasks", init)).json()) as { taskId: string }).taskId;
  }, `${service.targetUrl}/200`);
  await page.getByRole("button", { name: "1 new" }).click();
  await page.getByLabel("Select the page").check();
  expect(await page.getByRole("button", { name: "Cancel…" }).count()).toBe(0);
  await page.getByRole("link", { name: taskId }).click();
  await page.getByText("Attempt 1 is due in").waitFor();
  await page.getByText("scope payload:read").waitFor();
  expect(await page.getByRole("button", { name: "Cancel" }).count()).toBe(0);
  await page.goto(`${service.url}/ui/settings`);
  await page.getByText("Keys and alerts are shown to a key with the scope admin").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API key").waitFor();
  await page.context().close();
});

test("an admin creates a key, sees it once, and revokes it; alerts can be tested", async () => {
  const { page } = await openPage(browser, `${service.url}/ui/settings`);
  await page.getByLabel("API key").fill(admin);
  await page.keyboard.press("Enter");
  await page.locator("tbody tr", { hasText: "yours" }).waitFor();
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByLabel("Name").fill("shop");
  await page.getByLabel("Expires after").selectOption("30");
  await page.getByRole("button", { name: "Create the key" }).click();
  const shown = page.locator(".new-key");
  await shown.waitFor();
  const created = (await shown.textContent()) ?? "";
  const authorization = `Bearer ${created}`;
  const read = async () =>
    (await fetch(`${service.url}/retry-tasks`, { headers: { authorization } })).status;
  expect(await read()).toBe(200);
  await page.getByRole("button", { name: "Done" }).click();
  expect(await page.locator("main").textContent()).not.toContain(created);
  const row = page.locator("tbody tr", { hasText: "shop" });
  await row.getByText("in 30 d").waitFor();
  await row.getByRole("button", { name: "Revoke" }).click();
  await row.getByRole("button", { name: "Yes" }).click();
  await eventually(() => row.count()).toBe(0);
  expect(await read()).toBe(401);
  await page.getByText("token=***").waitFor();
  await page.getByRole("button", { name: "Post a test alert" }).click();
  await page.getByRole("link", { name: "the test alert" }).click();
  await page.getByText("It succeeded at attempt 1.").waitFor();
  await page.context().close();
});
