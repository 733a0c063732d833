/** Tests of the destination document: defaults per package, ranges, and rules between its parts. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { presets } from "../decide/presets.ts";
import { DocumentError } from "../documents/document.ts";
import {
  checkDestination,
  type DestinationDocument,
  guardOptionsOf,
  resolveDestination,
} from "./destination.ts";

const messageOf = (document: unknown) =>
  checkDestination(document)
    .map((one) => one.message)
    .join("; ");

describe("what is on by default", () => {
  test("in the library: a retry budget by ratio and nothing else", () => {
    const destination = resolveDestination({});
    expect(destination.retryBudget).toEqual({
      kind: "RATIO",
      ratio: 0.2,
      minPerSecond: 1,
      windowMs: 10_000,
    });
    expect(destination.policy.maxAttempts).toBe(5);
    expect(destination).toMatchObject({
      breaker: undefined,
      concurrency: undefined,
      rate: undefined,
      hedge: undefined,
      retryAfterGate: undefined,
    });
  });

  test("in the service: budget, breaker, adaptive concurrency and the background policy", () => {
    const destination = resolveDestination({}, "service");
    expect(destination.policy).toMatchObject({ policyId: "background", maxAttempts: 12 });
    expect(destination.breaker).toEqual({
      failureRate: 0.5,
      slowCallMs: undefined,
      slowRate: 1,
      windowMs: 10_000,
      minCalls: 20,
      openMs: 5000,
      maxOpenMs: 60_000,
      halfOpenProbes: 1,
    });
    expect(destination.concurrency).toEqual({
      algorithm: "AIMD",
      max: 64,
      maxRetries: 64,
      queue: 0,
      rampFactor: 3,
    });
    expect(destination.retryBudget?.kind).toBe("RATIO");
    expect(destination.retryAfterGate).toEqual({ maxGateMs: 300_000 });
  });

  test("in the simulator: only what the scenario names", () => {
    const destination = resolveDestination({}, "simulator");
    expect(destination.retryBudget).toBeUndefined();
    expect(destination.retryAfterGate).toBeUndefined();
    expect(guardOptionsOf(destination)).toEqual({});
  });

  test("false turns a guard off", () => {
    const off = {
      retryBudget: false,
      breaker: false,
      concurrency: false,
      retryAfterGate: false,
    } as const;
    expect(resolveDestination(off, "service")).toMatchObject({
      retryBudget: undefined,
      breaker: undefined,
      concurrency: undefined,
      retryAfterGate: undefined,
    });
    expect(guardOptionsOf(resolveDestination(off, "service"))).toEqual({});
  });
});

describe("defaults of parts", () => {
  test.each([
    [
      { retryBudget: { ratio: 0.2 } },
      "retryBudget",
      { kind: "RATIO", ratio: 0.2, minPerSecond: 1, windowMs: 10_000 },
    ],
    [
      { retryBudget: { kind: "TOKENS" } },
      "retryBudget",
      { kind: "TOKENS", maxTokens: 500, costPerRetry: 14, costPerThrottle: 5, refillPerSuccess: 1 },
    ],
    [
      { retryBudget: { kind: "GRPC", maxTokens: 4 } },
      "retryBudget",
      { kind: "GRPC", maxTokens: 4, tokenRatio: 0.1 },
    ],
    [
      { concurrency: { algorithm: "GRADIENT", max: 200 } },
      "concurrency",
      { algorithm: "GRADIENT", max: 200, maxRetries: 200, queue: 0, rampFactor: 3 },
    ],
    [
      { concurrency: { max: 10, maxRetries: 2 } },
      "concurrency",
      { algorithm: "AIMD", max: 10, maxRetries: 2, queue: 0, rampFactor: 3 },
    ],
    [{ hedge: {} }, "hedge", { after: "p95", max: 1, endpoints: [] }],
    [{ hedge: { after: 20, max: 2 } }, "hedge", { after: 20, max: 2, endpoints: [] }],
    [
      { rate: { perSecond: 2.5 } },
      "rate",
      { limit: { perSecond: 2.5, burst: 2 }, adaptive: false, throttle: undefined },
    ],
    [
      { rate: { perSecond: 0.1 } },
      "rate",
      { limit: { perSecond: 0.1, burst: 1 }, adaptive: false, throttle: undefined },
    ],
    [
      { rate: { adaptive: true } },
      "rate",
      { limit: undefined, adaptive: true, throttle: undefined },
    ],
    [
      { rate: { throttle: true } },
      "rate",
      { limit: undefined, adaptive: false, throttle: { k: 2, windowMs: 120_000 } },
    ],
    [
      { rate: { throttle: { k: 1.1 } } },
      "rate",
      { limit: undefined, adaptive: false, throttle: { k: 1.1, windowMs: 120_000 } },
    ],
    [{ retryAfterGate: {} }, "retryAfterGate", { maxGateMs: 300_000 }],
    [{ retryAfterGate: { maxGateMs: 1 } }, "retryAfterGate", { maxGateMs: 1 }],
    [{ retryAfterGate: { maxGateMs: 86_400_000 } }, "retryAfterGate", { maxGateMs: 86_400_000 }],
  ] as const)("%o", (document, part, expected) => {
    expect(resolveDestination(document as DestinationDocument)[part]).toEqual(expected);
  });

  test("a long first opening raises maxOpenMs", () => {
    expect(resolveDestination({ breaker: { openMs: 90_000 } }).breaker?.maxOpenMs).toBe(90_000);
    expect(resolveDestination({ breaker: { openMs: 9000 } }).breaker?.maxOpenMs).toBe(60_000);
  });

  test("a field with the value undefined counts as absent", () => {
    const breaker = { openMs: undefined } as never;
    expect(resolveDestination({ breaker }).breaker?.openMs).toBe(5000);
  });

  test("a policy may be a document or a preset's name", () => {
    expect(resolveDestination({ policy: "payment" }).policy.requireIdempotencyKey).toBe(true);
    expect(resolveDestination({ policy: { maxAttempts: 2 } }).policy.maxAttempts).toBe(2);
    expect(Object.keys(presets)).toContain("background");
  });
});

describe("what is refused", () => {
  test.each([
    [5, "the destination must be an object, got 5"],
    [{ polcy: {} }, 'unknown field "polcy", did you mean "policy"?'],
    [
      { policy: "payments" },
      'policy must be one of default, interactive, read, payment, background, webhook, got "payments"',
    ],
    [{ policy: 5 }, "policy must be a policy document or a preset's name, got 5"],
    [
      { policy: { maxAttempts: 0 } },
      "policy.maxAttempts must be a whole number from 1 to 1000, got 0",
    ],
    [{ breaker: true }, "breaker must be an object, or false, got true"],
    [
      { breaker: { failureRat: 1 } },
      'unknown field "breaker.failureRat", did you mean "failureRate"?',
    ],
    [{ breaker: { failureRate: 0 } }, "breaker.failureRate must be a number from 0.01 to 1, got 0"],
    [
      { breaker: { halfOpenProbes: 11 } },
      "breaker.halfOpenProbes must be a whole number from 1 to 10, got 11",
    ],
    [
      { breaker: { openMs: 5000, maxOpenMs: 4000 } },
      "breaker.maxOpenMs must be at least breaker.openMs (5000), got 4000",
    ],
    [{ breaker: { slowRate: 0.5 } }, "breaker.slowRate must come with breaker.slowCallMs, got 0.5"],
    [
      { concurrency: { algorithm: "gradient" } },
      "concurrency.algorithm must be one of FIXED, GRADIENT, VEGAS, AIMD",
    ],
    [
      { concurrency: { max: 5, maxRetries: 6 } },
      "concurrency.maxRetries must be at most concurrency.max (5), got 6",
    ],
    [
      { retryBudget: { kind: "FINAGLE" } },
      'retryBudget.kind must be one of RATIO, TOKENS, GRPC, got "FINAGLE"',
    ],
    [{ retryBudget: { kind: "TOKENS", ratio: 1 } }, 'unknown field "retryBudget.ratio"'],
    [
      { retryBudget: { kind: "TOKENS", maxTokens: 10 } },
      "retryBudget.costPerRetry must be at most retryBudget.maxTokens (10), got 14",
    ],
    [{ retryBudget: { ratio: -0.1 } }, "retryBudget.ratio must be a number from 0 to 10, got -0.1"],
    [{ retryBudget: { kind: ["RATIO"] } }, "kind must be one of RATIO, TOKENS, GRPC, got"],
    [{ rate: { burst: 5 } }, "rate.burst must come with rate.perSecond, got 5"],
    [{ rate: { perSecond: 0 } }, "rate.perSecond must be a number from 0.001 to 1000000, got 0"],
    [{ rate: { throttle: { k: 0.5 } } }, "rate.throttle.k must be a number from 1 to 100, got 0.5"],
    [{ rate: { throttle: "yes" } }, 'rate.throttle must be true, false or an object, got "yes"'],
    [{ hedge: { after: "p5" } }, 'hedge.after must be 1 to 600000 ms, or p50 to p99.9, got "p5"'],
    [{ hedge: { after: 0 } }, "hedge.after must be 1 to 600000 ms, or p50 to p99.9, got 0"],
    [
      { hedge: { endpoints: ["ftp://x"] } },
      "hedge.endpoints must be a list in which each entry is an http(s) URL",
    ],
    [{ idempotent: "yes" }, "idempotent must be true or false"],
    [{ retryAfterGate: true }, "retryAfterGate must be an object, or false, got true"],
    [
      { retryAfterGate: { maxGateMs: 0 } },
      "retryAfterGate.maxGateMs must be a whole number from 1 to 86400000, got 0",
    ],
    [
      { retryAfterGate: { maxGateMs: 86_400_001 } },
      "retryAfterGate.maxGateMs must be a whole number from 1 to 86400000, got 86400001",
    ],
    [
      { retryAfterGate: { maxGateM: 5 } },
      'unknown field "retryAfterGate.maxGateM", did you mean "maxGateMs"?',
    ],
    [{ retryAfterGates: {} }, 'unknown field "retryAfterGates", did you mean "retryAfterGate"?'],
  ])("%o", (document, message) => {
    expect(messageOf(document)).toContain(message);
  });

  test("all problems of all parts are reported at once", () => {
    const bad = { breaker: { openMs: 0 }, hedge: { max: 0 } };
    expect(checkDestination(bad)).toHaveLength(2);
    expect(() => resolveDestination(bad)).toThrow(DocumentError);
    expect(() => resolveDestination(bad)).toThrow(
      expect.objectContaining({ code: "INVALID_DESTINATION" }),
    );
  });

  test("no value crashes the check, and every accepted document resolves", () => {
    const part = fc.oneof(fc.anything(), fc.dictionary(fc.string(), fc.anything()));
    const parts = ["policy", "retryBudget", "breaker", "concurrency", "rate", "hedge"];
    const names = [...parts, "retryAfterGate"];
    const document = fc.oneof(fc.anything(), fc.dictionary(fc.constantFrom(...names), part));
    fc.assert(
      fc.property(document, (value) => {
        fc.pre(value !== undefined);
        if (checkDestination(value).length > 0) return;
        expect(resolveDestination(value as DestinationDocument).policy.maxAttempts).toBeGreaterThan(
          0,
        );
      }),
    );
  });
});

test("createGuards gets exactly the guards that are on", () => {
  const destination = resolveDestination({
    breaker: {},
    rate: { perSecond: 5, adaptive: true, throttle: true },
    retryBudget: false,
  });
  const isOn = ([, options]: readonly [string, unknown]) => options !== undefined;
  const on = Object.entries(guardOptionsOf(destination)).filter(isOn);
  expect(on.map(([name]) => name).sort()).toEqual(["adaptiveRate", "breaker", "rate", "throttle"]);
  expect(guardOptionsOf(resolveDestination({ retryBudget: false }))).toEqual({});
});

test("without a concurrency limit, a Retry-After gate gets one for its ramp that no traffic reaches", () => {
  const gated = resolveDestination({ retryBudget: false, retryAfterGate: {} });
  expect(gated.concurrency).toBeUndefined();
  expect(guardOptionsOf(gated)).toEqual({
    concurrency: {
      algorithm: "FIXED",
      max: 100_000,
      maxRetries: 100_000,
      queue: 1_000_000,
      rampFactor: 3,
    },
  });
  const own = resolveDestination({ retryAfterGate: {}, concurrency: { max: 3 } });
  expect(guardOptionsOf(own).concurrency).toEqual(own.concurrency);
});
