/**
 * Demo service: a real service that has lived through an hour, for the pictures of the dashboard. It
 * has healthy, slow, failing, throttled and paused destinations, dead letters and a running redrive.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../core/dist/index.js";
import { createClient } from "../../faces/service/dist/client/client.js";
import { createApp, listenApp } from "../../faces/service/dist/http/index.js";
import { createRedrive } from "../../faces/service/dist/index.js";
import { inRoot } from "../setup/root.mjs";
import { rules, startTarget } from "./demo-target.mjs";
import { fastClock } from "./fast-clock.mjs";

const SPEED = 30;
const HOUR_MS = 3_600_000;
const LASTS_MS = HOUR_MS / SPEED;

const ORDERS = {
  policyId: "orders",
  description: "Order events: five attempts within ten minutes, then a person decides.",
  maxAttempts: 5,
  initialDelayMs: 5000,
  maxDelayMs: 120_000,
  totalBudgetMs: 600_000,
};
/** @type {import("../../core/dist/index.js").PolicyDocument} */
const PATIENT = {
  policyId: "partner-webhooks",
  description: "Partners are often down for hours.",
  maxAttempts: 12,
  initialDelayMs: 30_000,
  maxDelayMs: 3_600_000,
  totalBudgetMs: 86_400_000,
  jitterType: "EQUAL",
};

/** Tasks per virtual second, and what they look like. */
const TRAFFIC = [
  { destination: "email", path: "/email/send", rate: 0.5, policyId: "orders" },
  { destination: "search-index", path: "/search/documents", rate: 0.3, policyId: "background" },
  { destination: "billing-api", path: "/billing/v1/charges", rate: 0.25, policyId: "orders" },
  { destination: "crm-sync", path: "/crm/contacts", rate: 0.2, policyId: "orders" },
  {
    destination: "partner-webhooks",
    path: "/partner/hooks/17",
    rate: 0.1,
    policyId: "partner-webhooks",
  },
  { destination: "shipping", path: "/shipping/labels", rate: 0.08, policyId: "orders" },
  { destination: "legacy-erp", path: "/erp/soap", rate: 0.08, policyId: "orders" },
  { destination: "invoices", path: "/invoices", rate: 0.03, policyId: "orders" },
];

/**
 * What happens when, in minutes of the hour.
 * @type {readonly { minute: number, run: (demo: Demo) => unknown }[]}
 */
const STORY = [
  { minute: 0, run: () => start() },
  { minute: 10, run: () => set("erp", { status: 503, body: "upstream connect error" }) },
  { minute: 24, run: () => set("erp", { status: 200 }) },
  { minute: 47, run: () => set("billing", { status: 503, body: "service unavailable" }) },
  { minute: 52, run: ({ client }) => client.pauseDestination("shipping") },
  { minute: 57, run: () => set("partner", { status: 429, retryAfter: 240 }) },
];

/** @param {string} name @param {import("./demo-target.mjs").Rule} rule */
function set(name, rule) {
  rules[name] = rule;
}

function start() {
  set("search", { status: 503, share: 0.02, delayMs: 9 });
  set("crm", { status: 500, share: 0.25, delayMs: 4, body: '{ "error": "deadlock" }' });
  set("invoices", { status: 422, share: 0.4, body: '{ "error": "amount must be positive" }' });
}

/** Starts it, waits until its hour is over, and returns it. The caller closes it. */
export async function startDemo() {
  const folder = mkdtempSync(join(tmpdir(), "redrive-demo-"));
  const target = await startTarget();
  const clock = fastClock(SPEED, LASTS_MS);
  const redrive = await createRedrive({
    store: `sqlite:${join(folder, "demo.db")}`,
    clock,
    // Renewals of the lease run at the speed of the clock.
    leaseMs: 600_000,
    alerts: { url: `${target.url}/oncall?token=abc` },
  });
  const app = createApp(redrive, { pagesFolder: inRoot("apps", "web", "dist") });
  const url = await listenApp(app, { host: "127.0.0.1", port: 0 });
  const client = createClient({ url });
  const demo = {
    url,
    client,
    target,
    async close() {
      await app.close();
      await redrive.stop(0);
      target.close();
      rmSync(folder, { recursive: true });
    },
  };
  await client.registerPolicy(ORDERS);
  await client.registerPolicy(PATIENT);
  await client.configureDestination("search-index", {
    description: "At most 40 documents at once: the cluster is small.",
    concurrency: { algorithm: "AIMD", max: 40 },
  });
  await live(demo);
  await finish(demo);
  return demo;
}

/** @typedef {{ client: ReturnType<typeof createClient>, target: { url: string } }} Demo */

const STEP_MS = 100;

/** Plays the hour: creates tasks, and lets things happen. @param {Demo} demo */
async function live(demo) {
  const startMs = systemClock.monotonicMs();
  const story = [...STORY];
  let created = 0;
  /** @type {Record<string, number>} */
  const owed = {};
  for (;;) {
    const realMs = systemClock.monotonicMs() - startMs;
    if (realMs >= LASTS_MS) return;
    const minute = (realMs * SPEED) / 60_000;
    while (story[0] !== undefined && story[0].minute <= minute) await story.shift()?.run(demo);
    const tasks = [];
    for (const { destination, path, rate, policyId } of TRAFFIC) {
      // Traffic rises and falls during the hour.
      const wave = 1 + 0.4 * Math.sin((minute / 60) * 9);
      owed[destination] = (owed[destination] ?? 0) + ((rate * STEP_MS * SPEED) / 1000) * wave;
      for (; owed[destination] >= 1; owed[destination]--) {
        created++;
        tasks.push(taskOf(demo, { destination, path, policyId }, created));
      }
    }
    if (tasks.length > 0) await demo.client.createTasks(tasks);
    await systemClock.sleep(STEP_MS);
  }
}

/** @param {Demo} demo @param {{ destination: string, path: string, policyId: string }} kind @param {number} n */
function taskOf({ target }, { destination, path, policyId }, n) {
  return {
    targetUrl: `${target.url}${path}?order=${40_000 + n}`,
    destination,
    policyId,
    idempotencyKey: `order-${40_000 + n}-${destination}`,
    labels: { team: n % 3 === 0 ? "payments" : "growth", region: n % 2 === 0 ? "eu" : "us" },
    json: { order: 40_000 + n, amount: (n * 37) % 900, currency: "EUR" },
    headers: { authorization: "Bearer secret", "x-tenant": "shop-7" },
  };
}

/** A redrive that is still running, and one that is done. @param {Demo} demo */
async function finish({ client }) {
  const old = { destination: "invoices", reason: "not-retryable" };
  await client.startRedrive({ filter: old, ratePerSecond: 1000 });
  const erp = { destination: "legacy-erp" };
  await client.startRedrive({ filter: erp, ratePerSecond: 0.5, canary: 3 });
  await systemClock.sleep(4000);
}
