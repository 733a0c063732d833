/**
 * Dashboard flows: the setup of the dashboard's tests, and what must work on every store: the overview
 * counts the last hour, and the wizard redrives exactly what it showed.
 */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { launchChromium } from "../servers/chromium.ts";
import { type DashboardService, HOSTILE } from "./dashboard-service.ts";
import { eventually, type OpenPage, openPage } from "./web-pages.ts";

export const FAST = { maxAttempts: 2, initialDelayMs: 100, maxDelayMs: 100 };
const SLOW = {
  maxAttempts: 5,
  initialDelayMs: 600_000,
  maxDelayMs: 600_000,
  totalBudgetMs: 86_400_000,
  jitterType: "NONE",
};
/** Waits for ten minutes after its first attempt. */
export const waiting = { policy: SLOW, destination: "crm" } as const;

export interface DashboardSetup {
  readonly browser: Browser;
  readonly service: DashboardService;
  /** A task that waits and has hostile fields. */
  readonly waitingId: string;
  /** A dead letter. */
  readonly deadId: string;
  create(status: number, fields: object): Promise<string>;
  /** Opens the address in the page that all tests of the file share. */
  open(path: string): Promise<OpenPage>;
}

/** One browser, one page and one service for all tests of a file, with tasks in several states. */
export function dashboardSetup(start: () => Promise<DashboardService>): DashboardSetup {
  const made: { -readonly [Field in keyof DashboardSetup]?: DashboardSetup[Field] } = {};
  beforeAll(async () => {
    const [browser, service] = await Promise.all([launchChromium(), start()]);
    const create = async (status: number, fields: object) => {
      const targetUrl = `${service.targetUrl}/${status}?x=%3Cb%3E${encodeURIComponent(HOSTILE)}`;
      return (await service.client.createTask({ targetUrl, ...fields })).taskId;
    };
    const open = sharedPage(browser, service);
    Object.assign(made, { browser, service, create, open }, await fill(service, create));
  });
  afterAll(async () => {
    await made.browser?.close();
    await made.service?.close();
  });
  // Set before the first test runs.
  return made as DashboardSetup;
}

async function fill(service: DashboardService, create: DashboardSetup["create"]) {
  const waitingId = await create(503, {
    ...waiting,
    body: HOSTILE,
    labels: { team: HOSTILE },
    headers: { "x-secret": "hidden" },
  });
  const deadId = await create(503, { policy: FAST, destination: "billing" });
  await create(503, { policy: FAST, destination: "billing" });
  await create(429, { policy: SLOW, destination: "throttled" });
  await create(200, { destination: "shop" });
  await vi.waitFor(async () => {
    const { attempts } = await service.client.listAttempts(waitingId);
    expect(attempts).toHaveLength(1);
    const { groups } = await service.client.groupDeadLetters();
    expect(groups).toMatchObject([{ destination: "billing", count: 2 }]);
  }, 20_000);
  return { waitingId, deadId };
}

/** Opens addresses of the service one after another in one page, because a new page takes longer. */
export function sharedPage(
  browser: Browser,
  service: DashboardService,
): (path: string) => Promise<OpenPage> {
  let opened: Promise<OpenPage> | undefined;
  return async (path) => {
    const url = `${service.url}${path}`;
    if (opened === undefined) {
      opened = openPage(browser, url);
      return opened;
    }
    const { page, messages } = await opened;
    (messages as string[]).length = 0;
    await page.goto(url);
    await page.locator("main .stage").waitFor();
    return { page, messages };
  };
}

/** Leaving a page ends its stream of events and its open requests, which the browser reports. */
export function expectNoMessages({ messages }: OpenPage): void {
  expect(messages.filter((text) => !/^http:\S+ failed$/u.test(text))).toEqual([]);
}

/** The address of each page, and a text that only its data has. */
export function pagesOf({ waitingId }: DashboardSetup) {
  return [
    ["overview", "Trouble at 2 of 4 destinations"],
    ["tasks", "2 of 2"],
    [`task?id=${waitingId}`, "x-secret"],
    ["destinations", "healthy"],
    ["destination?name=throttled", "until attempts may start"],
    ["dead-letters?destination=billing&reason=attempts", "Redrive 2 dead letters"],
    ["redrives", "There are no redrives yet"],
    ["policies?id=interactive", "A preset cannot be changed"],
    ["policies?new=yes", "What changes"],
    ["settings", "The service requires no API key"],
    ["docs", "/retry-tasks/{taskId}"],
  ] as const;
}

export async function statusOf({ service }: DashboardSetup, taskId: string): Promise<string> {
  return (await service.client.getTask(taskId)).status;
}

/** Comes first, because it counts what `dashboardSetup` has created. */
export function overviewFlow(setup: DashboardSetup): void {
  test("/ leads to the overview: health, the last hour, and what is wrong with which destination", async () => {
    const opened = await setup.open("/");
    const { page } = opened;
    expect(new URL(page.url()).pathname).toBe("/ui/");
    await page.getByText("Trouble at 2 of 4 destinations").waitFor();
    const row = page.locator("tbody tr", { hasText: "throttled" });
    expect(await row.textContent()).toContain("Retry-After");
    const failing = page.locator("tbody tr", { hasText: "billing" });
    expect(await failing.textContent()).toContain("failing");
    const value = (label: string) =>
      page.locator(".tile", { hasText: label }).locator(".tile-value").textContent();
    expect(await value("New dead letters")).toBe("2");
    await page.locator(".holds li", { hasText: "throttled" }).waitFor();
    // The service counts, so a new page shows the same hour.
    await page.reload();
    await eventually(() => value("Succeeded")).toBe("1");
    await page.getByRole("link", { name: "2 dead letters" }).click();
    await eventually(() => page.locator("tbody tr").count()).toBe(2);
    expect(new URL(page.url()).search).toBe("?status=EXHAUSTED");
    await page.goBack();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    expectNoMessages(opened);
  });
}

/** Comes last, because it repairs the target. */
export function wizardFlow(setup: DashboardSetup): void {
  test("the wizard redrives exactly the dead letters that it showed", async () => {
    const { service, deadId } = setup;
    const opened = await setup.open("/ui/dead-letters");
    const { page } = opened;
    await page.getByRole("link", { name: "Redrive…" }).click();
    const start = page.getByRole("button", { name: "Redrive 2 dead letters" });
    await start.waitFor();
    const later = await setup.create(503, { policy: FAST, destination: "billing" });
    await eventually(() => statusOf(setup, later)).toBe("EXHAUSTED");
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
    await page.goto(`${service.url}/ui/dead-letters`);
    await page.getByText("3 dead letters, 2 of them redriven").waitFor();
    const group = page.locator("tbody tr", { hasText: "billing" });
    expect(await group.getByRole("link", { name: "1", exact: true }).count()).toBe(1);
    await page.getByLabel("Show redriven ones").check();
    await group.getByRole("link", { name: "2", exact: true }).click();
    await eventually(() => page.locator("tbody tr").count()).toBe(2);
    expectNoMessages(opened);
  });
}
