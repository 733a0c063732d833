/** Tests that a retry takes from both budgets, its destination's and the service's, or from neither. */
import {
  type AdmissionRequest,
  createRetryBudget,
  type RetryBudget,
  SharedBudget,
  seededRandom,
} from "@redrive/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DESTINATION, T0, TENANT } from "../stores/store.testing.ts";
import { DestinationRuntime } from "./destination-runtime.ts";
import { FAILED, OK, setup } from "./engine.testing.ts";
import { createServiceBudget, serviceBudgetOptions } from "./guard-saver.ts";

const AT = 1_800_000_000_000;
const TOKENS = {
  kind: "TOKENS",
  costPerRetry: 2,
  costPerThrottle: 1,
  refillPerSuccess: 0,
} as const;
const tokens = (maxTokens: number) => createRetryBudget({ ...TOKENS, maxTokens }, AT);
const left = (budget: RetryBudget | undefined) => (budget?.kind === "TOKENS" ? budget.tokens : 0);

/** A destination whose only guard is a retry budget, beside the service retry budget. */
function destinationWith(retryBudget: object | false, serviceBudget: RetryBudget | undefined) {
  const key = { tenantId: "t", name: "shop" };
  const shared = serviceBudget && new SharedBudget(serviceBudget);
  const shop = new DestinationRuntime(seededRandom("shop"), key, AT, shared);
  const put = (budget: object | false) => {
    const document = { breaker: false, concurrency: false, retryBudget: budget };
    const version = shop.row.version + 1;
    shop.adopt({ ...shop.row, version, document: JSON.stringify(document) }, AT);
  };
  put(retryBudget);
  return { shop, put };
}

const retry = (throttled: boolean): AdmissionRequest => ({
  kind: "retry",
  patient: true,
  throttled,
});

describe("a retry's tickets", () => {
  it("come from both budgets or from neither, and can all be returned", () => {
    fc.assert(
      fc.property(fc.nat(30), fc.nat(30), fc.array(fc.boolean()), (own, service, asks) => {
        const second = tokens(service + 2);
        const { shop } = destinationWith({ ...TOKENS, maxTokens: own + 2 }, second);
        const { admission } = shop;
        const first = admission.guards.retryBudget;
        // At one instant, each bucket allows one trial without a token.
        const mayTry = [true, true];
        const got = asks.map((throttled) => {
          const before = [left(first), left(second)] as const;
          const price = throttled ? 1 : 2;
          const isPaid = before.map((tokensLeft) => tokensLeft >= price);
          const isGiven = isPaid.every((paid, index) => paid || mayTry[index]);
          if (isGiven) for (const index of [0, 1]) if (!isPaid[index]) mayTry[index] = false;
          const permit = admission.enter(retry(throttled), undefined, AT);
          expect(permit !== undefined).toBe(isGiven);
          expect(left(first)).toBe(before[0] - (isGiven && isPaid[0] ? price : 0));
          expect(left(second)).toBe(before[1] - (isGiven && isPaid[1] ? price : 0));
          return permit;
        });
        for (const permit of got) if (permit) shop.returnPermit(permit, AT);
        expect([left(first), left(second)]).toEqual([own + 2, service + 2]);
      }),
    );
  });

  it("become available at an empty bucket once a second, as a trial", () => {
    const { shop } = destinationWith({ ...TOKENS, maxTokens: 2 }, undefined);
    const takenAt = (ms: number) => shop.takePermit(true, AT + ms);
    const taken = [takenAt(0), takenAt(0), takenAt(999)].map((permit) => permit !== undefined);
    expect(taken).toEqual([true, true, false]);
    expect(shop.retryReadyAt(AT + 999, false)).toBe(AT + 1000);
    const second = takenAt(1000);
    expect(second).toBeDefined();
    if (second) shop.returnPermit(second, AT + 1001);
    expect(takenAt(1001)).toBeDefined();
    expect(takenAt(1002)).toBeUndefined();
    expect(left(shop.guards.retryBudget)).toBe(0);
  });

  it("return to the budget that they came from, and not to the budget of a later document", () => {
    const { shop, put } = destinationWith({}, undefined);
    const permit = shop.takePermit(true, AT);
    put({ ...TOKENS, maxTokens: 10 });
    const later = shop.guards.retryBudget;
    const spent = shop.takePermit(true, AT);
    if (permit) shop.returnPermit(permit, AT);
    expect(left(later)).toBe(8);
    if (spent) shop.returnPermit(spent, AT);
    expect(left(later)).toBe(10);
  });

  it.each([
    ["a floor of 0", { ratio: 0.5, minPerSecond: 0 }],
    ["TOKENS", { ...TOKENS, maxTokens: 1, costPerRetry: 1 }],
    ["GRPC", { kind: "GRPC", maxTokens: 1 }],
  ] as const)(
    "are not refused forever by the service retry budget with %s",
    async (_, retryBudget) => {
      const policy = { initialDelayMs: 100, jitterType: "NONE" } as const;
      const { clock, engine, enqueue, sent, script, get } = await setup(policy, T0, {
        retryBudget,
      });
      const document = JSON.stringify({ retryBudget: false });
      await engine.changeDestination(TENANT, DESTINATION, { document });
      script.push(FAILED, FAILED, FAILED, OK);
      const { task } = enqueue();
      await clock.advance(10_000);
      expect(await get(task.taskId)).toMatchObject({ status: "SUCCEEDED", attemptNumber: 4 });
      const [third = 0, fourth = 0] = sent.slice(2).map(({ at }) => at);
      expect(fourth - third).toBe(1000);
    },
  );

  it("are refused to every destination once the service retry budget is spent", () => {
    const serviceBudget = createServiceBudget(
      serviceBudgetOptions({ ratio: 0, minPerSecond: 0.3 }),
      AT,
    );
    const make = (name: string) =>
      new DestinationRuntime(seededRandom(name), { tenantId: "t", name }, AT, serviceBudget);
    const [one, other] = [make("one"), make("other")];
    const permits = [one, other, one].map((destination) => destination.takePermit(true, AT));
    expect(permits.every((permit) => permit !== undefined)).toBe(true);
    expect(other.takePermit(true, AT)).toBeUndefined();
    expect(other.readyAt).toBeGreaterThan(AT);
    expect(other.takePermit(false, AT)).toBeDefined();
    expect(other.gates(AT, false).retryBudgetUntil).toBeGreaterThan(AT);
    const [permit] = permits;
    if (permit) one.returnPermit(permit, AT);
    expect(other.takePermit(true, AT)).toBeDefined();
  });

  it("and slots are counted while the document sets no limit, for a later document that does", () => {
    const random = seededRandom("places");
    const shop = new DestinationRuntime(random, { tenantId: "t", name: "shop" }, AT, undefined);
    const put = (version: number, document: object) =>
      shop.adopt({ ...shop.row, version, document: JSON.stringify(document) }, AT);
    put(1, { concurrency: false });
    const permits = [false, true, false].map((isRetry) => shop.takePermit(isRetry, AT));
    put(2, { concurrency: { max: 2, algorithm: "FIXED" } });
    const [first, second] = permits;
    expect(shop.takePermit(false, AT)).toBeUndefined();
    if (first) shop.returnPermit(first, AT);
    expect(shop.takePermit(false, AT)).toBeUndefined();
    if (second) shop.returnPermit(second, AT);
    expect(shop.takePermit(false, AT)).toBeDefined();
  });

  it("have default bounds, can be turned off, and reject invalid options", () => {
    expect(serviceBudgetOptions()).toEqual({
      kind: "RATIO",
      ratio: 0.2,
      minPerSecond: 100,
      windowMs: 10_000,
    });
    expect(serviceBudgetOptions({ kind: "GRPC" })).toMatchObject({ kind: "GRPC", maxTokens: 10 });
    expect(serviceBudgetOptions(false)).toBeUndefined();
    expect(() => serviceBudgetOptions({ ratio: -1 })).toThrow(/retryBudget\.ratio/);
  });
});
