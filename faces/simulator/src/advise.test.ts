/** Advise: every combination of answers gives a policy that passes lint, with reasons. */
import { checkDestination } from "@redrive/core";
import { beforeAll, describe, expect, it } from "vitest";
import { type Advice, type Answers, advise, questions } from "./advise.ts";
import { lint } from "./lint/lint.ts";
import { coverage } from "./schedule/coverage.ts";

/** Every combination of answers, with a few outages, tiers and shards. */
function* everyPath(): Generator<Answers> {
  for (const waits of ["person", "service", "job"] as const) yield { transient: false, waits };
  for (const idempotent of ["yes", "key", "no"] as const)
    for (const clients of ["few", "many", "very-many"] as const)
      for (const minimumWait of [false, true])
        for (const background of [false, true])
          for (const waits of ["person", "service", "job"] as const)
            for (const outageMs of [8000, 3_600_000])
              for (const shards of [1, 3])
                yield {
                  transient: true,
                  idempotent,
                  clients,
                  minimumWait,
                  background,
                  waits,
                  outageMs,
                  tiers: 2,
                  shards,
                };
}

let advices: readonly { readonly answers: Answers; readonly advice: Advice }[];

beforeAll(() => {
  advices = [...everyPath()].map((answers) => ({ answers, advice: advise(answers) }));
});

describe("advise", () => {
  it("returns a policy that passes lint for all answers", () => {
    const linted = new Set<string>();
    for (const { answers, advice } of advices) {
      const { destination, context, reasons } = advice;
      expect(reasons.length).toBeGreaterThan(0);
      // Many combinations give the same advice.
      const place = JSON.stringify([destination, context]);
      if (linted.has(place)) continue;
      linted.add(place);
      expect(checkDestination(destination)).toEqual([]);
      const worse = lint(destination, context).filter((finding) => finding.severity !== "info");
      expect(worse, JSON.stringify(answers)).toEqual([]);
    }
    expect(advices).toHaveLength(435);
  });

  it("gives a reason for each choice, and no others", () => {
    for (const { answers, advice } of advices) {
      const { destination, policy, reasons } = advice;
      if (answers.transient === false) continue;
      const text = reasons.join(" ");
      const { retryBudget, breaker, hedge } = destination;
      expect(
        [/budget of 10 %/, /breaker/, /hedged/, /Equal jitter/, /key/].map((word) =>
          word.test(text),
        ),
        JSON.stringify(answers),
      ).toEqual([
        retryBudget !== undefined,
        breaker !== undefined,
        hedge !== undefined,
        policy.jitterType === "EQUAL",
        policy.requireIdempotencyKey === true,
      ]);
      const fewest = /(\d+) attempts are the fewest/.exec(text)?.[1];
      if (fewest !== undefined) expect(policy.maxAttempts).toBe(Math.max(4, Number(fewest)));
    }
  });

  it("covers the outage with the fewest attempts if no person waits", () => {
    const { policy, coverage: share } = advise({ waits: "service", outageMs: 8000 });
    expect(share).toBeGreaterThanOrEqual(0.94);
    const fewer = { ...policy, maxAttempts: (policy.maxAttempts ?? 0) - 1 };
    expect(coverage(fewer, 8000)).toBeLessThan(0.96);
  });

  it("covers a day for work that nobody waits for", () => {
    const {
      destination,
      context,
      coverage: share,
    } = advise({ waits: "job", outageMs: 86_400_000 });
    expect(share).toBeGreaterThan(0.94);
    expect(lint(destination, context)).toEqual([]);
  });

  it("does not retry permanent errors", () => {
    expect(advise({ transient: false }).policy).toEqual({ maxAttempts: 1 });
  });

  it("retries calls that are not idempotent only if they were never sent", () => {
    const { policy, destination } = advise({ idempotent: "no" });
    expect(policy.retryableErrors).toEqual(["connect", "dns"]);
    expect(policy.retryableStatusCodes).toEqual([]);
    expect(destination.idempotent).toBe(false);
    expect(advise({ idempotent: "key" }).policy.requireIdempotencyKey).toBe(true);
  });

  it("follows the usual thresholds: a breaker above 1,000 clients, equal jitter for a minimum wait", () => {
    expect(advise({ clients: "very-many" }).destination.breaker).toEqual({});
    expect(advise({ clients: "many" }).destination.breaker).toBeUndefined();
    expect(advise({ minimumWait: true }).policy.jitterType).toBe("EQUAL");
    expect(advise({}).policy.jitterType).toBe("FULL");
  });

  it("shows where it differs from the usual tree, with both coverages", () => {
    const { differsFromUsual, policy } = advise({
      background: true,
      waits: "job",
      outageMs: 600_000,
    });
    expect(policy.jitterType).toBe("EQUAL");
    expect(differsFromUsual?.usual).toBe("decorrelated jitter, 6 attempts from 1 s to 30 s");
    expect(differsFromUsual?.ourCoverage).toBeGreaterThan(0.94);
    expect(differsFromUsual?.usualCoverage).toBeLessThan(0.05);
  });

  it("gives the product of nested layers, and recommends a breaker per shard", () => {
    const { reasons, destination } = advise({ tiers: 3, shards: 4 });
    expect(reasons.join(" ")).toMatch(/outermost of the 3 layers/);
    expect(reasons.join(" ")).toMatch(/one of 4 shards/);
    expect(destination.breaker).toEqual({ minCalls: 100 });
  });

  it("rejects unknown answers with a suggestion", () => {
    expect(() => advise({ client: "few" } as never)).toThrow('did you mean "clients"?');
    expect(() => advise({ waits: "robot" } as never)).toThrow(
      'waits must be one of person, service, job, got "robot"',
    );
  });

  it("asks the usual five questions in their order, then ours", () => {
    expect(questions.map((question) => question.id)).toEqual([
      "transient",
      "idempotent",
      "clients",
      "minimumWait",
      "background",
      "waits",
      "outageMs",
      "callsPerProcess",
      "tiers",
      "shards",
    ]);
    expect(questions.map((question) => question.from).lastIndexOf("usual")).toBe(4);
    for (const { id, fallback } of questions)
      expect(() => advise({ [id]: fallback })).not.toThrow();
  });
});
