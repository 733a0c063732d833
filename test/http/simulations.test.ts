/**
 * Tests of simulations over HTTP, with the simulator itself: what is filled in from measurements, what is
 * refused, and the limits.
 */
import { virtualClock } from "@redrive/core";
import { createKey, memoryKeyStore, type Scope, type Simulator } from "@redrive/service/http";
import { checkScenario, simulate } from "@redrive/simulator";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { measuredScenario } from "../../faces/service/src/operations/simulations.ts";
import { endings, openTestServer, type TestServer, type TestServerOptions } from "./test-server.ts";

const inline: Simulator = {
  async run(scenario, seed) {
    const report = simulate(scenario as Parameters<typeof simulate>[0], { seed });
    return { reportJson: JSON.stringify(report), link: "1.x" };
  },
};

const SCENARIO = { clients: { kind: "OPEN", ratePerSecond: 5 }, horizonMs: 10_000 } as const;

let server: TestServer;

async function open(options: TestServerOptions = {}) {
  server = await openTestServer({ simulator: inline, ...options });
}

const call = (body: object, headers = {}) => server.call({ path: "/simulations", body, headers });

/** Some calls to one destination, one of which is retried. */
async function measure(destination: string): Promise<void> {
  const ended = endings(server.redrive, 4);
  server.target.statuses = [503];
  const policy = { maxAttempts: 2, initialDelayMs: 1, maxDelayMs: 1 };
  for (let n = 0; n < 4; n++) {
    await server.call({ body: { targetUrl: server.target.url, destination, policy } });
  }
  await ended;
}

describe("a simulation", () => {
  beforeAll(async () => {
    await open();
    await server.redrive.configure("idle", {});
  });
  afterAll(() => server.close());

  test("of a scenario has the report of the simulator", async () => {
    const { status, json } = await call({ scenario: SCENARIO, seed: "a" });
    expect(status).toBe(200);
    expect(json).toMatchObject({ scenario: SCENARIO, seed: "a", inputs: null });
    expect(json.pageUrl).toBe("/ui/simulator#1.x");
    expect(json.report).toEqual(JSON.parse(JSON.stringify(simulate(SCENARIO, { seed: "a" }))));
  });

  test("of a destination is filled in from what the service has measured", async () => {
    await measure("shop");
    await server.redrive.policies.replace({ policyId: "patient", maxAttempts: 9 });
    await server.redrive.configure("shop", { breaker: { minCalls: 7 }, concurrency: false });
    const waiting = { targetUrl: server.target.url, destination: "shop" };
    const scheduledAt = server.redrive.now() + 60_000;
    for (let n = 0; n < 3; n++) await server.redrive.enqueue({ ...waiting, scheduledAt });
    const { status, json } = await call({
      destination: "shop",
      policyId: "patient",
      outageMs: 20_000,
    });
    expect(status).toBe(200);
    const { inputs, scenario } = json;
    expect(inputs).toMatchObject({
      destination: "shop",
      policyId: "patient",
      outageMs: 20_000,
      measuredMinutes: expect.any(Number),
      failureShare: 0.2,
      waiting: 3,
      breakerState: "CLOSED",
      concurrency: null,
    });
    expect(inputs.ratePerSecond).toBeGreaterThan(0);
    const [tier] = scenario.tiers;
    expect(tier.destination).toMatchObject({
      policy: { policyId: "patient", maxAttempts: 9 },
      breaker: { minCalls: 7 },
      concurrency: false,
      retryBudget: {},
    });
    expect(scenario.timeline.at(-1)).toEqual({ kind: "OUTAGE", atMs: 10_000, forMs: 20_000 });
    expect(json.report).toMatchObject({ scenario: "measured-outage", calls: expect.any(Number) });
  });

  test("of a destination without measured calls needs a rate and a latency", async () => {
    await server.redrive.configure("new", {});
    const question = { destination: "new", outageMs: 1000 };
    expect((await call(question)).json).toMatchObject({
      status: 422,
      code: "NOT_MEASURED",
      detail: 'the service has measured no calls of "new" lately: pass ratePerSecond',
    });
    expect((await call({ ...question, ratePerSecond: 2 })).json.detail).toContain("pass latencyMs");
    const given = { ratePerSecond: 2, latencyMs: 40, policy: { maxAttempts: 2 } };
    const { json } = await call({ ...question, ...given });
    expect(json.inputs).toMatchObject({ ratePerSecond: 2, measuredMinutes: 0, waiting: 0 });
  });

  test.each([
    [{}, 400, "destination must be given, or a scenario"],
    [{ destination: "idle" }, 400, "outageMs must be given"],
    [{ destination: "none", outageMs: 1 }, 404, "there is no destination"],
    [{ destination: "idle", outageMs: 1, policyId: "x" }, 422, "there is no policy"],
    [{ scenario: SCENARIO, outageMs: 1 }, 400, "outageMs must not be given with a scenario"],
    [{ scenario: { clients: {} } }, 400, "scenario.clients.kind"],
    [{ scenari: SCENARIO }, 400, "scenari"],
    [{ destination: "idle", outageMs: 0 }, 400, "outageMs"],
  ])("of %j is refused with %d", async (body, status, detail) => {
    const response = await call(body);
    expect(response.status).toBe(status);
    expect(response.text).toContain(detail);
  });
});

test("a simulation needs a simulator", async () => {
  server = await openTestServer();
  expect((await call({ scenario: SCENARIO })).json).toMatchObject({
    code: "NOT_FOUND",
    detail: "this service has no simulator: `redrive serve` has one",
  });
  await server.close();
});

describe("the limits", () => {
  afterEach(() => server.close());
  const keys = memoryKeyStore();
  const keyOf = (tenantId: string, ...scopes: Scope[]) => {
    const fill = (bytes: Uint8Array) => bytes.fill(keys.list().length + 1);
    const { key, record } = createKey(fill, { tenantId, scopes, now: 0 });
    keys.add(record);
    return { authorization: `Bearer ${key}` };
  };
  const a = keyOf("a", "tasks:read");
  const b = keyOf("b", "tasks:read");
  const c = keyOf("c", "tasks:read");
  const creator = keyOf("a", "tasks:create");

  /** A simulator that ends when its signal is aborted, or when the test says so. */
  function hanging() {
    const runs: (() => void)[] = [];
    const aborts: unknown[] = [];
    const simulator: Simulator = {
      run: (_scenario, _seed, signal) =>
        new Promise((resolve, reject) => {
          runs.push(() => resolve({ reportJson: "{}", link: "" }));
          signal.addEventListener("abort", () => {
            aborts.push(signal.reason);
            reject(signal.reason as Error);
          });
        }),
    };
    return { simulator, runs, aborts };
  }

  test("are one of a tenant and two in all", async () => {
    const { simulator, runs } = hanging();
    await open({ simulator, keys });
    const body = { scenario: SCENARIO };
    expect((await call(body, creator)).status).toBe(403);
    const running = [call(body, a), call(body, b)];
    await expect.poll(() => runs.length).toBe(2);
    const [second, third] = [await call(body, a), await call(body, c)];
    expect([second.status, third.status]).toEqual([429, 429]);
    expect(second.headers["retry-after"]).toBe("1");
    expect(second.json.detail).toContain("of this tenant");
    for (const end of runs) end();
    expect((await Promise.all(running)).map(({ status }) => status)).toEqual([200, 200]);
    const next = call(body, c);
    await expect.poll(() => runs.length).toBe(3);
    runs[2]?.();
    expect((await next).status).toBe(200);
  });

  test("are ten seconds", async () => {
    const { simulator, runs } = hanging();
    const serverClock = virtualClock(1_700_000_000_000);
    await open({ simulator, serverClock });
    const running = call({ scenario: SCENARIO });
    await expect.poll(() => runs.length).toBe(1);
    await serverClock.advance(10_000);
    expect((await running).json).toMatchObject({ status: 422, code: "SIMULATION_TOO_LARGE" });
  });

  test("include the caller: a simulation ends with its connection", async () => {
    const { simulator, runs, aborts } = hanging();
    await open({ simulator });
    const text = JSON.stringify({ scenario: SCENARIO });
    const abort = new AbortController();
    const gone = fetch(`${server.url}/simulations`, {
      method: "POST",
      body: text,
      headers: { "content-type": "application/json" },
      signal: abort.signal,
    }).catch(() => undefined);
    await expect.poll(() => runs.length).toBe(1);
    abort.abort();
    await gone;
    await expect.poll(() => aborts.length).toBe(1);
  });
});

test("every measurement gives a valid scenario", () => {
  const count = fc.nat(100_000);
  const counts = fc.array(count, { minLength: 60, maxLength: 60 });
  const ms = fc.integer({ min: 1, max: 2_097_151 });
  fc.assert(
    fc.property(
      counts,
      counts,
      fc.tuple(ms, ms),
      count,
      fc.integer({ min: 1, max: 82_800_000 }),
      (attempts, failed, [p50Ms, p99Ms], waiting, outageMs) => {
        fc.pre(attempts.slice(-10).some((one) => one > 0));
        const health = {
          name: "shop",
          document: null,
          latency: { p50Ms, p99Ms: Math.max(p50Ms, p99Ms) },
          tasks: { PENDING: waiting },
        };
        const retries = attempts.map(() => 0);
        const activity = {
          firstMinuteAt: 0,
          minuteMs: 60_000,
          counts: { attempts, retries, failed },
        };
        const measured = { health, activity, policy: "background", now: 59.5 * 60_000 };
        const { scenario } = measuredScenario(
          measured as unknown as Parameters<typeof measuredScenario>[0],
          { outageMs },
        );
        expect(checkScenario(scenario)).toEqual([]);
      },
    ),
  );
});
