/** The dashboard in a real browser, against a real service on SQLite with real tasks. */
// needs: chromium, build
import { expect, test } from "vitest";
import {
  dashboardSetup,
  expectNoMessages,
  overviewFlow,
  pagesOf,
  statusOf,
  waiting,
  wizardFlow,
} from "./dashboard-flows.ts";
import { HOSTILE, startDashboardService } from "./dashboard-service.ts";
import { eventually, seriousFindings } from "./web-pages.ts";

const setup = dashboardSetup(() => startDashboardService());

/** Tall, so that every part of a page is in view and loads. */
const PHONE = { width: 390, height: 3000 };
const DESKTOP = { width: 1280, height: 3000 };

overviewFlow(setup);

/** `npm run test:long` examines each page in both looks; otherwise they alternate, because axe is slow. */
const isEveryLook = process.env["REDRIVE_LOOKS"] === "all";

test("no page overflows or has a serious finding of axe: dark on a phone, light on a desktop", async () => {
  const { page } = await setup.open("/ui/overview");
  await page.setViewportSize(DESKTOP);
  // A color that is still changing from one look to the other has neither contrast.
  await page.emulateMedia({ reducedMotion: "reduce" });
  const look = async (colorScheme: "dark" | "light", viewport: typeof PHONE, path: string) => {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(viewport);
    expect(await seriousFindings(page), `${path} in ${colorScheme}`).toEqual([]);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(width, `${path} in ${colorScheme}`).toBe(viewport.width);
  };
  const hasLint = (path: string) => /destination\?|policies\?new/u.test(path);
  const pages = pagesOf(setup).map(([path, text]) => [`/ui/${path}`, text] as const);
  const plainDocs = ["/docs", "LOOP_DETECTED"] as const;
  for (const [index, [path, text]] of [...pages, plainDocs].entries()) {
    await page.goto(`${setup.service.url}${path}`);
    await page.getByText(text).first().waitFor();
    if (hasLint(path)) await page.getByText(/^No findings|^\d+ (?:error|warning|note)/u).waitFor();
    if (isEveryLook || index % 2 === 0) await look("dark", PHONE, path);
    if (isEveryLook || index % 2 === 1) await look("light", DESKTOP, path);
  }
});

test("hostile data is shown as text, secrets are masked, and a sentence says what it waits for", async () => {
  const opened = await setup.open(`/ui/task?id=${setup.waitingId}`);
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
  expect(await page.locator("rect.planned").count()).toBe(1);
  // The policy has no jitter, so all four attempts that are left have exact instants.
  expect(await page.locator("rect.due-exact").count()).toBe(4);
  expectNoMessages(opened);
});

test("hostile values are suggested, listed and filtered as text", async () => {
  const opened = await setup.open("/ui/tasks");
  const { page } = opened;
  await page.getByRole("combobox", { name: "Label" }).fill("team");
  const option = page.getByRole("option", { name: "⟨U+202E⟩" });
  await option.waitFor();
  await option.click();
  await eventually(() => page.locator("tbody tr").count()).toBe(1);
  await page.getByText("1 task", { exact: true }).waitFor();
  expect(await page.locator("main img, main script, main b").count()).toBe(0);
  expectNoMessages(opened);
});

test("a huge body is shown without blocking the page, and cannot be mistaken for the page", async () => {
  const line = `${HOSTILE} ${"x".repeat(200)}\n`;
  const body = line.repeat(Math.floor(60_000 / line.length));
  const taskId = await setup.create(503, { ...waiting, body });
  await eventually(async () => (await setup.service.client.getTask(taskId)).attemptNumber).toBe(1);
  const opened = await setup.open(`/ui/task?id=${taskId}`);
  const { page } = opened;
  const raw = page.locator("pre.raw").last();
  await raw.waitFor();
  expect((await raw.textContent())?.length).toBeGreaterThan(50_000);
  const box = await raw.boundingBox();
  expect(box?.height).toBeLessThan(400);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(1280);
  expectNoMessages(opened);
});

test("retry now sends the request, and the page follows; cancel asks first", async () => {
  const taskId = await setup.create(503, waiting);
  const attempts = async () => (await setup.service.client.listAttempts(taskId)).attempts.length;
  await eventually(attempts).toBe(1);
  const opened = await setup.open(`/ui/task?id=${taskId}`);
  const { page } = opened;
  await page.getByRole("button", { name: "Retry now" }).click();
  await page.getByText("Attempt 3 is due in").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  expect(await statusOf(setup, taskId)).toBe("PENDING");
  await page.getByRole("button", { name: "Yes" }).click();
  await page.getByText("It was canceled after 2 attempts.").waitFor();
  expect(await page.getByRole("button", { name: "Retry now" }).count()).toBe(0);
  expect(await statusOf(setup, taskId)).toBe("CANCELLED");
  expectNoMessages(opened);
});

test("filters are in the address, and a bad one is explained", async () => {
  const opened = await setup.open("/ui/tasks?destination=shop");
  const { page } = opened;
  await eventually(() => page.locator("tbody tr").count()).toBe(1);
  await page.getByRole("link", { name: "Dead letters" }).last().click();
  await page.getByText("No task matches these filters").waitFor();
  expect(new URL(page.url()).search).toBe("?status=EXHAUSTED&destination=shop");
  await page.getByRole("combobox", { name: "Last response" }).fill("5xx");
  await page.keyboard.press("Enter");
  expect(await page.getByRole("alert").textContent()).toContain('got "5xx"');
  expectNoMessages(opened);
});

test("new tasks are counted and do not move rows, and rows follow their tasks", async () => {
  const labels = { live: "yes" };
  const first = await setup.create(503, { ...waiting, labels });
  const opened = await setup.open("/ui/tasks?label=live%3Dyes");
  const { page } = opened;
  const shownIds = () => page.locator("tbody .id").allTextContents();
  await page.locator("tbody tr").waitFor();
  await page.locator(".status.live", { hasText: "live" }).waitFor();
  const more = [
    await setup.create(503, { ...waiting, labels }),
    await setup.create(503, { ...waiting, labels }),
  ];
  await page.getByRole("button", { name: "2 new" }).waitFor();
  expect(await shownIds()).toEqual([first]);
  await setup.service.client.cancelTask(first);
  await page.locator("tbody tr", { hasText: "canceled" }).waitFor();
  await page.getByRole("button", { name: "2 new" }).click();
  await eventually(shownIds).toEqual([...more.toReversed(), first]);
  expectNoMessages(opened);
});

test("the page survives a restart of the service and rests while it is hidden", async () => {
  const { page } = await setup.open("/ui/tasks?destination=after");
  const state = (text: string) => page.locator(".status.live", { hasText: text }).waitFor();
  await state("live");
  await setup.service.restart();
  await state("live");
  await setup.create(200, { destination: "after" });
  await page.locator("tbody tr, .fresh button").first().waitFor();
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: true, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await state("paused");
});

wizardFlow(setup);
