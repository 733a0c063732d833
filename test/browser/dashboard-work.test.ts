/**
 * Work in the dashboard, in a real browser: filters with suggestions and exact counts, selections with
 * bulk actions, documents with lint and a preview, the way to the simulator and back, and keys.
 */
// needs: chromium, build
import type { Client } from "@redrive/service/client";
import type { AppOptions } from "@redrive/service/http";
import { type ScenarioDocument, simulate } from "@redrive/simulator";
import { encodeRun } from "@redrive/simulator/share";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { launchChromium } from "../servers/chromium.ts";
import { sharedPage } from "./dashboard-flows.ts";
import { type DashboardService, startDashboardService } from "./dashboard-service.ts";
import { eventually } from "./web-pages.ts";

const DESTINATIONS = ["billing", "crm"] as const;
const TASKS = 130;

let browser: Browser;
let service: DashboardService;
let openPath: ReturnType<typeof sharedPage>;

/** Tasks that wait for an hour. */
async function createWaiting(labels: Record<string, string>, count = TASKS): Promise<void> {
  const now = (await service.client.getDestination("seed")).pausedAt ?? 0;
  const tasks = Array.from({ length: count }, (_, n) => ({
    targetUrl: `${service.targetUrl}/200`,
    destination: DESTINATIONS[n % 2] ?? "crm",
    scheduledAt: now + 3_600_000,
    labels,
  }));
  const { accepted } = await service.client.createTasks(tasks);
  expect(accepted).toBe(count);
}

/** On this thread, because the one of the command line is built. */
const simulator: NonNullable<AppOptions["simulator"]> = {
  run: async (scenario, seed) => {
    const document = scenario as ScenarioDocument;
    const reportJson = JSON.stringify(simulate(document, { seed }));
    return { reportJson, link: encodeRun({ view: "system", seed, scenarios: [document] }) };
  },
};

const LIST_OF_IDS = /retry-tasks\/ids/u;

/** Holds the responses to these addresses until the returned function is called. */
async function hold(page: Page, address: RegExp): Promise<() => void> {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route(address, async (route) => {
    await held;
    await route.continue();
  });
  onTestFinished(() => page.unroute(address));
  return release;
}

const count = async (label: string, status?: "PENDING" | "CANCELLED" | "SUCCEEDED") =>
  (await service.client.countTasks({ label, ...(status && { status }) })).count;

beforeAll(async () => {
  [browser, service] = await Promise.all([launchChromium(), startDashboardService({ simulator })]);
  openPath = sharedPage(browser, service);
  // A paused destination tells the time of the service.
  await service.client.configureDestination("seed", {});
  await service.client.pauseDestination("seed");
});

afterAll(async () => {
  await browser.close();
  await service.close();
});

const open = async (path: string): Promise<Page> => (await openPath(`/ui/${path}`)).page;

const field = (page: Page, name: string) => page.getByRole("combobox", { name });

test("a filter suggests what exists, and counts exactly", async () => {
  await createWaiting({ batch: "count" });
  const page = await open("tasks?label=batch%3Dcount");
  await page.getByText(`${TASKS} tasks`).waitFor();
  await field(page, "Destination").fill("bil");
  const option = page.getByRole("option", { name: "billing" });
  await option.waitFor();
  await page.keyboard.press("ArrowDown");
  expect(await option.getAttribute("aria-selected")).toBe("true");
  await page.keyboard.press("Enter");
  await page.getByText(`${TASKS / 2} tasks`).waitFor();
  expect(new URL(page.url()).searchParams.get("destination")).toBe("billing");
  await page.getByRole("link", { name: "Succeeded" }).click();
  await page.getByText("0 tasks").waitFor();
  await page.goBack();
  await page.getByText(`${TASKS / 2} tasks`).waitFor();
});

test("rows stay while the next ones are loaded, and cannot be selected then", async () => {
  await createWaiting({ batch: "pages" });
  const page = await open("tasks?label=batch%3Dpages");
  const ids = () => page.locator("tbody a.id").allTextContents();
  await page.getByText(`${TASKS} tasks`).waitFor();
  const first = await ids();
  const release = await hold(page, /retry-tasks\?.*cursor/u);
  await page.getByRole("link", { name: "Older tasks" }).press("Enter");
  await page.locator('.listing[aria-busy="true"]').waitFor();
  await page.getByText("loading…").waitFor();
  expect(await ids()).toEqual(first);
  // Without moving the focus, unlike a click.
  const box = page.locator("tbody input[type=checkbox]").first();
  await box.evaluate((element: HTMLElement) => element.click());
  expect([await box.isDisabled(), await box.isChecked()]).toEqual([true, false]);
  release();
  await page.locator('.listing[aria-busy="false"]').waitFor();
  const next = await ids();
  expect(next).toHaveLength(first.length);
  expect(next.filter((id) => first.includes(id))).toEqual([]);
  expect(await page.locator(".selection-bar").count()).toBe(0);
  // The page starts with its first row, and the focus stays where paging continues.
  expect(await page.locator("tbody tr").first().isVisible()).toBe(true);
  expect(
    await page.locator(".listing").evaluate((list) => list.getBoundingClientRect().top),
  ).toBeGreaterThanOrEqual(0);
  expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Older tasks");
  expect(await page.locator("tbody input[type=checkbox]").first().isDisabled()).toBe(false);
});

test("the selection can be cleared and extended while rows are loaded", async () => {
  await createWaiting({ batch: "bar" });
  const page = await open("tasks?label=batch%3Dbar");
  const bar = page.locator(".selection-bar");
  await page.getByText(`${TASKS} tasks`).waitFor();
  await page.getByLabel("Select the page").check();
  const release = await hold(page, /retry-tasks\?.*cursor/u);
  await page.getByRole("link", { name: "Older tasks" }).press("Enter");
  await page.locator('.listing[aria-busy="true"]').waitFor();
  await page.getByRole("button", { name: `Select all ${TASKS} tasks that match` }).click();
  await page.getByText(`${TASKS} selected`).waitFor();
  await bar.getByRole("button", { name: "Clear" }).click();
  await bar.waitFor({ state: "detached" });
  release();
  await page.locator('.listing[aria-busy="false"]').waitFor();
  expect(await bar.count()).toBe(0);
});

test("what was being selected when the filter changed is not selected", async () => {
  await createWaiting({ batch: "first" });
  await createWaiting({ batch: "second" }, 3);
  const page = await open("tasks?label=batch%3Dfirst");
  await page.getByText(`${TASKS} tasks`).waitFor();
  await page.getByLabel("Select the page").check();
  const release = await hold(page, LIST_OF_IDS);
  await page.getByRole("button", { name: `Select all ${TASKS} tasks that match` }).click();
  await page.getByText("listing…").waitFor();
  await field(page, "Label").fill("batch=second");
  await page.keyboard.press("Enter");
  await page.getByText("3 tasks").waitFor();
  const listed = page.waitForResponse(LIST_OF_IDS);
  release();
  await (await listed).finished();
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
  expect(await page.locator(".selection-bar").count()).toBe(0);
});

test.each([
  ["the page", "thead input", []],
  ["a row", "tbody input", ["49"]],
])("after %s was deselected, what was being listed is not selected", async (name, box, rest) => {
  await createWaiting({ batch: name });
  const page = await open(`tasks?label=${encodeURIComponent(`batch=${name}`)}`);
  await page.getByText(`${TASKS} tasks`).waitFor();
  await page.getByLabel("Select the page").check();
  const release = await hold(page, LIST_OF_IDS);
  await page.getByRole("button", { name: `Select all ${TASKS} tasks that match` }).click();
  await page.getByText("listing…").waitFor();
  await page.locator(box).first().uncheck();
  const listed = page.waitForResponse(LIST_OF_IDS);
  release();
  await (await listed).finished();
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
  expect(await page.locator(".selection-bar strong").allTextContents()).toEqual(rest);
  expect(await page.getByText("listing…").count()).toBe(0);
});

test("a bulk action affects everything that matched, and nothing that matches later", async () => {
  await createWaiting({ batch: "cancel" });
  const page = await open("tasks?label=batch%3Dcancel");
  await page.getByText(`${TASKS} tasks`).waitFor();
  await page.getByLabel("Select the page").check();
  await page.getByText("50 selected").waitFor();
  await page.getByRole("button", { name: `Select all ${TASKS} tasks that match` }).click();
  await page.getByText(`${TASKS} selected`).waitFor();
  await createWaiting({ batch: "cancel" }, 7);
  await page.getByRole("button", { name: "Cancel…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("The set was frozen at").waitFor();
  expect(await count("batch=cancel", "CANCELLED")).toBe(0);
  await dialog.getByRole("button", { name: `Cancel: ${TASKS} tasks` }).click();
  await dialog.getByText(`${TASKS} tasks canceled.`).waitFor();
  await dialog.getByRole("button", { name: "Close" }).click();
  expect(await count("batch=cancel", "CANCELLED")).toBe(TASKS);
  expect(await count("batch=cancel", "PENDING")).toBe(7);
  expect(await page.locator(".selection-bar").count()).toBe(0);
});

test("selected rows are changed alone, and tasks in another state are left out", async () => {
  await createWaiting({ batch: "rows" }, 3);
  const page = await open("tasks?label=batch%3Drows");
  const boxes = page.locator("tbody input[type=checkbox]");
  await eventually(() => boxes.count()).toBe(3);
  const [first] = (await service.client.listTasks({ label: "batch=rows" })).tasks;
  await service.client.cancelTask(first?.taskId ?? "");
  await page.locator("tbody tr", { hasText: "canceled" }).waitFor();
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  await page.getByRole("button", { name: "Retry now…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Left out: 1 canceled.").waitFor();
  await dialog.getByRole("button", { name: "Retry now: 1 task" }).click();
  await dialog.getByText("1 task due now.").waitFor();
  await eventually(() => count("batch=rows", "SUCCEEDED")).toBe(1);
  expect(await count("batch=rows", "PENDING")).toBe(1);
});

test("keys move through a list, select, open, and go to other pages", async () => {
  await createWaiting({ batch: "keys" }, 3);
  const page = await open("tasks?label=batch%3Dkeys");
  await eventually(() => page.locator("tbody tr").count()).toBe(3);
  const ids = await page.locator("tbody .id").allTextContents();
  for (const key of ["j", "j", "x", "k", "x"]) await page.keyboard.press(key);
  await page.getByText("2 selected").waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: ids[0] ?? "" }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("d");
  await page.getByRole("heading", { name: "Destinations" }).waitFor();
  // The filters come with the data of the page.
  await page.locator("tbody tr", { hasText: "seed" }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("crm");
  await page.keyboard.press("Enter");
  await eventually(() => page.locator("tbody tr").count()).toBe(1);
  await page.locator("h1").click();
  await page.keyboard.press("?");
  await page.getByRole("dialog").getByText("Open Dead letters").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press(".");
  await page.locator(".status.live", { hasText: "paused" }).waitFor();
  await page.keyboard.press(".");
  await page.locator(".status.live", { hasText: "live" }).waitFor();
});

test("a document is checked while it is typed, shows what changes, and is stored", async () => {
  const page = await open("destination?name=crm");
  const document = page.getByRole("textbox", { name: "Document of the destination" });
  await document.fill('{ "rate": { "perSecond": -1 } }');
  await page.getByText("got -1").waitFor();
  expect(await page.getByRole("button", { name: "Save" }).isDisabled()).toBe(true);
  await document.fill('{ "rate": { "perSecond": 50 }, "breaker": { "minCalls": 7 } }');
  const changes = page.locator(".changes");
  await changes.getByRole("row", { name: "breaker.minCalls 20 7" }).waitFor();
  await page.evaluate(() => scrollTo(0, 100_000));
  await page.locator(".lint").waitFor();
  await page.getByRole("button", { name: /^Save \d changes/u }).click();
  await page.getByText("Saved.").waitFor();
  const stored = await service.client.getDestination("crm");
  expect(stored.document).toMatchObject({ rate: { perSecond: 50 } });
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByRole("button", { name: "Yes" }).click();
  await page.getByText("Somebody paused it").waitFor();
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await page.getByText("healthy").waitFor();
});

test("a policy is linted, fixed with a click, registered and replaced", async () => {
  const page = await open("policies?new=yes");
  const text = page.getByRole("textbox", { name: "Document of the policy" });
  await text.fill('{ "policyId": "herd", "jitterType": "NONE", "maxAttempts": 4 }');
  const finding = page.locator(".finding", { hasText: "jitterType" }).first();
  await finding.getByRole("button", { name: "Fix" }).click();
  await eventually(() => text.inputValue()).not.toContain("NONE");
  await page.getByRole("button", { name: /^Save/u }).click();
  await page.getByText("registered, version 1").waitFor();
  await text.fill('{ "policyId": "herd", "maxAttempts": 9 }');
  await page.locator(".changes").getByRole("row", { name: "maxAttempts 4 9" }).waitFor();
  await page.getByRole("button", { name: /^Save/u }).click();
  await page.getByText("registered, version 2").waitFor();
  expect((await service.client.getPolicy("herd")).document).toMatchObject({ maxAttempts: 9 });
});

test("the simulator opens with what was measured, and what it shows is applied with its difference", async () => {
  await service.client.createTask({ targetUrl: `${service.targetUrl}/200`, destination: "crm" });
  await eventually(async () => (await service.client.getDestination("crm")).latency).not.toBeNull();
  const page = await open("destination?name=crm");
  await page.getByRole("link", { name: "Open in the simulator" }).click();
  await page.locator("main .stage .chart svg").first().waitFor();
  await page.getByText("Measured at crm").first().waitFor();
  await open("destination?name=seed");
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.getByText("has measured no calls here").waitFor();
  await open("destination?name=crm");
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.getByText(/calls per second in \d+ minutes?, p50/u).waitFor();
  await page.getByRole("link", { name: "Open this run in the simulator" }).click();
  await page.getByText("An outage of crm").first().waitFor();
  await page.goto(`${service.url}/ui/policies?id=herd`);
  await page.getByRole("link", { name: "Open in the simulator" }).click();
  await page.getByLabel("Attempts").first().fill("6");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Apply to…" }).click();
  await page.getByLabel("Apply to").selectOption("pherd");
  await page.locator(".changes").getByRole("row", { name: "maxAttempts 9 6" }).waitFor();
  expect((await service.client.getPolicy("herd")).document).toMatchObject({ maxAttempts: 9 });
  await page.getByRole("button", { name: /^Save/u }).click();
  await page.getByText("registered, version 3").waitFor();
  expect((await service.client.getPolicy("herd")).document).toMatchObject({ maxAttempts: 6 });
});

test("a policy of the service is chosen on the System tab and simulated", async () => {
  const policy = { policyId: "nightly", maxAttempts: 2, initialDelayMs: 700, jitterType: "NONE" };
  await service.client.registerPolicy(policy as Parameters<Client["registerPolicy"]>[0]);
  const page = await open("simulator#system");
  const menu = page.getByLabel("Policy of this service");
  expect(await menu.locator("option:checked").textContent()).toBe("custom");
  await menu.selectOption("nightly");
  await eventually(() => page.getByLabel("Attempts", { exact: true }).first().inputValue()).toBe(
    "2",
  );
  expect(await menu.inputValue()).toBe("nightly");
  await menu.selectOption("payment");
  await eventually(() => page.getByLabel("Attempts", { exact: true }).first().inputValue()).toBe(
    "3",
  );
});

test("the docs find an operation and show its fields", async () => {
  const page = await open("docs");
  await page.getByLabel("Search").fill("at a given rate");
  await page.keyboard.press("Enter");
  const operation = page.locator(".operation", { hasText: "Redrive dead letters" });
  await eventually(() => page.locator(".operation").count()).toBe(1);
  await operation.locator("summary").click();
  await operation.getByText("ratePerSecond").first().waitFor();
});
