/** The dashboard in a real browser, against a real service with real tasks. */
// needs: chromium, build
import { randomFillSync } from "node:crypto";
import { createKey, memoryKeyStore } from "@redrive/service/http";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { launchChromium } from "../servers/chromium.ts";
import { type DashboardService, HOSTILE, startDashboardService } from "./dashboard-service.ts";
import { eventually, type OpenPage, openPage, seriousFindings } from "./web-pages.ts";

const FAST = { maxAttempts: 2, initialDelayMs: 100, maxDelayMs: 100 };
const SLOW = {
  maxAttempts: 5,
  initialDelayMs: 600_000,
  maxDelayMs: 600_000,
  totalBudgetMs: 86_400_000,
  jitterType: "NONE",
};
/** Waits for ten minutes after its first attempt. */
const waiting = { policy: SLOW, destination: "crm" } as const;

let browser: Browser;
let service: DashboardService;
/** A task that waits and has hostile fields, and one that is a dead letter. */
let waitingId: string;
let deadId: string;

async function create(status: number, fields: object): Promise<string> {
  const targetUrl = `${service.targetUrl}/${status}?x=%3Cb%3E${encodeURIComponent(HOSTILE)}`;
  return (await service.client.createTask({ targetUrl, ...fields })).taskId;
}

const statusOf = async (taskId: string) => (await service.client.getTask(taskId)).status;
const attemptsOf = async (taskId: string) =>
  (await service.client.listAttempts(taskId)).attempts.length;

beforeAll(async () => {
  [browser, service] = await Promise.all([launchChromium(), startDashboardService()]);
  waitingId = await create(503, {
    ...waiting,
    body: HOSTILE,
    labels: { team: HOSTILE },
    headers: { "x-secret": "hidden" },
  });
  deadId = await create(503, { policy: FAST, destination: "billing" });
  await create(503, { policy: FAST, destination: "billing" });
  await create(429, { policy: SLOW, destination: "throttled" });
  await create(200, { destination: "shop" });
  await vi.waitFor(async () => {
    expect(await attemptsOf(waitingId)).toBe(1);
    const { groups } = await service.client.groupDeadLetters();
    expect(groups).toMatchObject([{ destination: "billing", count: 2 }]);
  }, 20_000);
});

afterAll(async () => {
  await browser.close();
  await service.close();
});

const open = (path: string, options = {}): Promise<OpenPage> =>
  openPage(browser, `${service.url}${path}`, options);

async function closeQuietly({ page, messages }: OpenPage): Promise<void> {
  expect(messages).toEqual([]);
  await page.context().close();
}

test("/ leads to the overview: counts, and what is wrong with which destination", async () => {
  const opened = await open("/");
  const { page } = opened;
  expect(new URL(page.url()).pathname).toBe("/ui/");
  await page.getByText("Trouble at 1 of 4 destinations").waitFor();
  const row = page.locator("tbody tr", { hasText: "throttled" });
  expect(await row.textContent()).toContain("Retry-After");
  await page.getByRole("link", { name: "2 dead letters" }).click();
  await page.locator("tbody tr").first().waitFor();
  expect(new URL(page.url()).search).toBe("?status=EXHAUSTED");
  expect(await page.locator("tbody tr").count()).toBe(2);
  await page.goBack();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await closeQuietly(opened);
});

const PAGES = [
  ["overview", "Tasks now"],
  ["tasks", "2 of 2"],
  ["task", "x-secret"],
  ["destinations", "healthy"],
  ["destination?name=throttled", "Retry-After gate"],
  ["dead-letters?destination=billing&reason=attempts", "2 dead letters"],
  ["redrives", "There are no redrives yet"],
  ["policies?id=interactive", "initialDelayMs"],
] as const;

test("every page has its data, no serious finding of axe in dark, and fits a phone", async () => {
  const { page, messages } = await open("/ui/overview", {
    colorScheme: "dark",
    viewport: { width: 390, height: 844 },
  });
  for (const [path, text] of PAGES) {
    const address = path === "task" ? `task?id=${waitingId}` : path;
    await page.goto(`${service.url}/ui/${address}`);
    await page.getByText(text).first().waitFor();
    expect(await seriousFindings(page), path).toEqual([]);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(width, path).toBe(390);
  }
  // Leaving a page ends its stream of events and its open requests, which the browser reports.
  const others = messages.filter((text) => !/^http:\S+ failed$/u.test(text));
  await closeQuietly({ page, messages: others });
});

test("the task page has no serious finding of axe in light", async () => {
  const opened = await open(`/ui/task?id=${waitingId}`);
  await opened.page.getByText("x-secret").waitFor();
  expect(await seriousFindings(opened.page)).toEqual([]);
  await closeQuietly(opened);
});

test("hostile data is shown as text, secrets are masked, and a sentence says what it waits for", async () => {
  const opened = await open(`/ui/task?id=${waitingId}`);
  const { page } = opened;
  await page.getByText("Attempt 2 is due in").waitFor();
  await page.getByText("the delay of its policy").first().waitFor();
  const bodies = await page.locator("pre.raw").allTextContents();
  expect(bodies).toEqual(Array(2).fill(HOSTILE.replace("\u202e", "⟨U+202E⟩")));
  const text = (await page.locator("main").textContent()) ?? "";
  expect(text).toContain("***");
  expect(text).not.toContain("session=secret");
  expect(text).not.toContain("hidden");
  expect(await page.locator("main img, main script, main b").count()).toBe(0);
  expect(await page.evaluate(() => "hacked" in globalThis)).toBe(false);
  expect(await page.locator("rect.request").count()).toBeGreaterThanOrEqual(1);
  expect(await page.locator("rect.wait.policy.planned, rect.planned").count()).toBe(1);
  await closeQuietly(opened);
});

test("retry now sends the request, and the page follows; cancel asks first", async () => {
  const taskId = await create(503, waiting);
  await eventually(() => attemptsOf(taskId)).toBe(1);
  const opened = await open(`/ui/task?id=${taskId}`);
  const { page } = opened;
  await page.getByRole("button", { name: "Retry now" }).click();
  await page.getByText("Attempt 3 is due in").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  expect(await statusOf(taskId)).toBe("PENDING");
  await page.getByRole("button", { name: "Yes" }).click();
  await page.getByText("It was canceled after 2 attempts.").waitFor();
  expect(await page.getByRole("button", { name: "Retry now" }).count()).toBe(0);
  expect(await statusOf(taskId)).toBe("CANCELLED");
  await closeQuietly(opened);
});

async function shownIds(page: Page): Promise<readonly string[]> {
  return page.locator("tbody .id").allTextContents();
}

test("new tasks are counted and do not move rows, and rows follow their tasks", async () => {
  const first = await create(503, { ...waiting, labels: { live: "yes" } });
  const opened = await open("/ui/tasks?label=live%3Dyes");
  const { page } = opened;
  await page.locator("tbody tr").waitFor();
  await page.locator(".status", { hasText: "live" }).waitFor();
  const more = [
    await create(503, { ...waiting, labels: { live: "yes" } }),
    await create(503, { ...waiting, labels: { live: "yes" } }),
  ];
  await page.getByRole("button", { name: "2 new" }).waitFor();
  expect(await shownIds(page)).toEqual([first]);
  await service.client.cancelTask(first);
  await page.locator("tbody tr", { hasText: "canceled" }).waitFor();
  await page.getByRole("button", { name: "2 new" }).click();
  await eventually(() => shownIds(page)).toEqual([...more.toReversed(), first]);
  await closeQuietly(opened);
});

test("filters are in the address, and a bad one is explained", async () => {
  const opened = await open("/ui/tasks?destination=shop");
  const { page } = opened;
  await eventually(() => page.locator("tbody tr").count()).toBe(1);
  await page.getByLabel("Status").selectOption("EXHAUSTED");
  await page.getByText("No task matches these filters").waitFor();
  expect(new URL(page.url()).search).toBe("?status=EXHAUSTED&destination=shop");
  await page.getByLabel("Last response").fill("5xx");
  await page.keyboard.press("Enter");
  expect(await page.getByRole("alert").textContent()).toContain('got "5xx"');
  await closeQuietly(opened);
});

test("a bad document shows each problem, a good one is stored, and pause and resume work", async () => {
  const opened = await open("/ui/destination?name=shop");
  const { page } = opened;
  const document = page.getByRole("textbox", { name: "Document of the destination" });
  await document.fill('{ "rate": { "perSecond": -1 } }');
  await page.getByRole("button", { name: "Save" }).click();
  expect(await page.getByRole("alert").textContent()).toContain("-1");
  await document.fill('{ "rate": { "perSecond": 50 } }');
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved.").waitFor();
  const stored = await service.client.getDestination("shop");
  expect(stored.document).toMatchObject({ rate: { perSecond: 50 } });
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Yes" }).click();
  await page.getByText("Somebody paused it").waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByText("healthy").waitFor();
  expect(opened.messages.filter((text) => !text.includes("status of 400"))).toEqual([]);
  await page.context().close();
});

test("the wizard redrives exactly the dead letters that it showed", async () => {
  const opened = await open("/ui/dead-letters");
  const { page } = opened;
  await page.getByRole("link", { name: "Redrive…" }).click();
  const start = page.getByRole("button", { name: "Redrive 2 dead letters" });
  await start.waitFor();
  const later = await create(503, { policy: FAST, destination: "billing" });
  await eventually(() => statusOf(later)).toBe("EXHAUSTED");
  service.repair();
  await page.getByLabel("Rate").fill("0");
  await page.keyboard.press("Tab");
  await page.getByText("The rate must be a number").waitFor();
  expect(await start.isDisabled()).toBe(true);
  await page.getByLabel("Rate").fill("100");
  await page.keyboard.press("Tab");
  await start.click();
  await page.getByText("2 of 2 redriven").waitFor();
  await page.locator(".sentence .status", { hasText: "done" }).waitFor();
  expect((await service.client.getTask(deadId)).redrivenTo).not.toBeNull();
  expect((await service.client.getTask(later)).redrivenTo).toBeNull();
  await closeQuietly(opened);
});

test("the page survives a restart of the service and rests while it is hidden", async () => {
  const { page } = await open("/ui/tasks?destination=after");
  const state = (text: string) => page.locator(".connection .status", { hasText: text }).waitFor();
  await state("live");
  await service.restart();
  await state("live");
  await create(200, { destination: "after" });
  await page.locator("tbody tr, .fresh button").first().waitFor();
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: true, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await state("paused");
  await page.context().close();
});

test("with keys, a key signs the browser in, and its scopes decide what is shown", async () => {
  const { key, record } = createKey((bytes) => randomFillSync(bytes), {
    tenantId: "default",
    scopes: ["tasks:read", "tasks:create"],
    now: 0,
  });
  const locked = await startDashboardService({ keys: memoryKeyStore([record]) });
  const { page } = await openPage(browser, `${locked.url}/ui/tasks`);
  const field = page.getByLabel("API key");
  await field.fill("rdv_wrong");
  await page.keyboard.press("Enter");
  await page.getByText("this API key is not valid").waitFor();
  await field.fill(key);
  await page.keyboard.press("Enter");
  await page.getByText("There are no tasks yet").waitFor();
  const taskId = await page.evaluate(async (targetUrl) => {
    const scheduledAt = Math.round(performance.timeOrigin) + 3_600_000;
    const headers = { "content-type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify({ targetUrl, scheduledAt }) };
    return ((await (await fetch("../retry-tasks", init)).json()) as { taskId: string }).taskId;
  }, `${locked.targetUrl}/200`);
  await page.getByRole("button", { name: "1 new" }).click();
  await page.getByRole("link", { name: taskId }).click();
  await page.getByText("Attempt 1 is due in").waitFor();
  await page.getByText("scope payload:read").waitFor();
  expect(await page.getByRole("button", { name: "Cancel" }).count()).toBe(0);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API key").waitFor();
  await page.context().close();
  await locked.close();
});
