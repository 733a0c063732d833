/** Tests of the catalog: figures from the systems' own sources, and the documented differences of each entry. */
import { describe, expect, test } from "vitest";
import { compilePolicy } from "../decide/compiled-policy.ts";
import { checkPolicy, resolvePolicy } from "../decide/policy.ts";
import { checkDestination } from "../guards/destination.ts";
import { catalog, catalogEntry } from "./catalog.ts";
import type { CatalogEntry } from "./catalog-entry.ts";

const ids = catalog.map((entry) => entry.id);
const LAST_DRAW = 1 - Number.EPSILON / 2;

function ceilings(id: string, count: number, throttled = false): number[] {
  const kernel = compilePolicy(resolvePolicy(catalogEntry(id).policy));
  return Array.from({ length: count }, (_, index) => kernel.ceilingMs(index + 1, throttled));
}

function waits(id: string, count: number, draw: number): number[] {
  const kernel = compilePolicy(resolvePolicy(catalogEntry(id).policy));
  return Array.from({ length: count }, (_, index) => kernel.delayMs(index + 1, 0, draw));
}

describe("every entry", () => {
  test.each(catalog)("$id is a legal policy of that name, with legal guards", (entry) => {
    expect(checkPolicy(entry.policy)).toEqual([]);
    expect(checkDestination(entry.destination)).toEqual([]);
    expect(entry.policy.policyId).toBe(entry.id);
  });

  test.each(catalog)("$id has its source and date", (entry) => {
    expect(entry.title).not.toBe("");
    expect(entry.version).not.toBe("");
    expect(entry.date).toMatch(/^20\d\d-[01]\d-[0-3]\d$/);
    expect(entry.source).toMatch(/^(https:\/\/\S+|@?[\w./-]+@\d+\.\d+\.\d+ \S+)/);
  });

  test.each(catalog)("$id lists its differences in full sentences, or has none", (entry) => {
    for (const sentence of entry.differs) expect(sentence).toMatch(/^[A-Za-z].{20,}\.$/);
  });

  test("has a unique id", () => {
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("has enough total budget for all of its waits", () => {
    const short = catalog.filter((entry) => lastAttemptMs(entry) > totalMs(entry));
    expect(short.map((entry) => entry.id)).toEqual([]);
  });
});

function lastAttemptMs(entry: CatalogEntry): number {
  const { maxAttempts } = resolvePolicy(entry.policy);
  return waits(entry.id, maxAttempts - 1, LAST_DRAW).reduce((total, one) => total + one, 0);
}

function totalMs(entry: CatalogEntry): number {
  return resolvePolicy(entry.policy).totalBudgetMs;
}

describe("ceilings of the first waits", () => {
  test.each<[string, number, number[]]>([
    ["aws-legacy", 5, [1000, 2000, 4000, 8000]],
    ["aws-standard", 3, [50, 100]],
    ["aws-standard-before-2.1", 3, [100, 200]],
    ["aws-adaptive", 3, [50, 100]],
    ["aws-adaptive-before-2.1", 3, [100, 200]],
    ["grpc", 4, [100, 200, 400]],
    ["envoy", 2, [25]],
    ["polly", 4, [2000, 2000, 2000]],
    ["resilience4j", 3, [500, 500]],
    ["finagle", 21, [0, 0, 0]],
    ["urllib3", 4, [0, 0, 0]],
    ["tenacity", 1000, [0, 0, 0]],
    ["got", 3, [1000, 2000]],
    ["ky", 3, [300, 600]],
    ["p-retry", 11, [1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000]],
    ["undici", 6, [500, 1000, 2000, 4000, 8000]],
    ["cockatiel", 1000, [0, 0, 0]],
    ["effect", 4, [100, 200, 400]],
    ["lambda-async", 3, [60_000, 120_000]],
    ["svix-webhooks", 8, [5000, 300_000, 1_800_000, 7_200_000, 18_000_000, 36_000_000, 36_000_000]],
  ])("%s makes at most %i attempts", (id, attempts, expected) => {
    expect(resolvePolicy(catalogEntry(id).policy).maxAttempts).toBe(attempts);
    expect(ceilings(id, expected.length)).toEqual(expected);
  });

  test("Envoy's ceiling stays at ten times the base for further retries", () => {
    expect(ceilings("envoy", 6)).toEqual([25, 50, 100, 200, 250, 250]);
  });

  test("AWS has a longer base after throttling: 1 s since 2.1, 500 ms before", () => {
    expect(ceilings("aws-standard", 2, true)).toEqual([1000, 2000]);
    expect(ceilings("aws-standard-before-2.1", 2, true)).toEqual([500, 1000]);
  });
});

describe("waits at given draws", () => {
  test("AWS since 2.1 draws below the ceiling", () => {
    expect(waits("aws-standard", 2, 0)).toEqual([0, 0]);
    expect(waits("aws-standard", 2, 0.5)).toEqual([25, 50]);
    expect(waits("aws-standard", 2, LAST_DRAW)).toEqual([50, 100]);
  });

  test("gRPC draws from 0.8 to 1.2 times the backoff", () => {
    expect(waits("grpc", 3, 0)).toEqual([80, 160, 320]);
    expect(waits("grpc", 3, 0.5)).toEqual([100, 200, 400]);
    expect(waits("grpc", 3, LAST_DRAW)).toEqual([120, 240, 480]);
  });

  test("async-retry draws from 1 to 2 times the backoff", () => {
    expect(waits("async-retry", 3, 0)).toEqual([1000, 2000, 4000]);
    expect(waits("async-retry", 3, LAST_DRAW)).toEqual([2000, 4000, 8000]);
  });

  test("got, ky, p-retry and undici use no random numbers", () => {
    for (const id of ["got", "ky", "p-retry", "undici"]) {
      expect(waits(id, 2, 0)).toEqual(waits(id, 2, LAST_DRAW));
    }
  });
});

/** Polly's formula at the middles of a grid of draws: the mean of the wait after `attempt`. */
function pollyMeanMs(attempt: number, baseMs: number): number {
  const value = (t: number) => 2 ** t * Math.tanh(Math.sqrt(4 * t));
  const grid = Array.from({ length: 1000 }, (_, index) => (index + 0.5) / 1000);
  const mean = (from: number) =>
    grid.reduce((total, draw) => total + value(from + draw), 0) / grid.length;
  return ((mean(attempt - 1) - (attempt > 1 ? mean(attempt - 2) : 0)) / 1.4) * baseMs;
}

describe("the approximation of Polly's formula", () => {
  test("has its mean waits in Http.Resilience", () => {
    const means = [1, 2, 3].map((attempt) => pollyMeanMs(attempt, 2000));
    ceilings("ms-http-resilience", 3).forEach((ceilingMs, index) => {
      expect(Math.abs(ceilingMs / (means[index] ?? 0) - 1)).toBeLessThan(0.01);
    });
  });

  test("has its mean waits in cockatiel from the second wait on", () => {
    const means = [2, 3, 4, 5, 6].map((attempt) => pollyMeanMs(attempt, 128));
    const ours = ceilings("cockatiel-exponential", 6).slice(1);
    ours.forEach((ceilingMs, index) => {
      expect(Math.abs(ceilingMs / (means[index] ?? 0) - 1)).toBeLessThan(0.12);
    });
  });
});

describe("budgets", () => {
  test("a retry costs 14 of AWS's 500 tokens since 2.1, and cost 10 before", () => {
    expect(catalogEntry("aws-standard").destination.retryBudget).toMatchObject({
      kind: "TOKENS",
      maxTokens: 500,
      costPerRetry: 14,
      costPerThrottle: 5,
      refillPerSuccess: 1,
    });
    const before = catalogEntry("aws-standard-before-2.1").destination.retryBudget;
    expect(before).toMatchObject({ costPerRetry: 10, costPerThrottle: 5 });
  });

  test("a system without a budget has none here, although Redrive's default is on", () => {
    expect(catalogEntry("p-retry").destination.retryBudget).toBe(false);
  });

  test("only AWS's adaptive mode slows the rate", () => {
    const adaptive = catalog.filter(
      ({ destination: { rate } }) => rate !== undefined && rate !== false && rate.adaptive,
    );
    expect(adaptive.map((entry) => entry.id)).toEqual(["aws-adaptive-before-2.1", "aws-adaptive"]);
  });
});

describe("catalogEntry", () => {
  test("suggests the likely id for a misspelled one", () => {
    expect(() => catalogEntry("cockatiell")).toThrow('did you mean "cockatiel"?');
  });

  test("lists the ids if none is similar", () => {
    expect(() => catalogEntry("something else entirely")).toThrow(/one of aws-legacy, /);
  });
});
