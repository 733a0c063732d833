/**
 * Agreement: checks that one policy, one seed and one script of outcomes give the same attempts at
 * the same instants, and the same end, in every face. To add a face, add it to `FACES`.
 */

import {
  type CallHistory,
  decide,
  OPEN_GATES,
  type Outcome,
  type PolicyDocument,
  resolvePolicy,
  seededRandom,
  statusOutcome,
  virtualClock,
} from "@redrive/core";
import { simulateCall } from "@redrive/simulator";
import fc from "fast-check";
import { RedriveError, retry } from "redrive";
import { describe, expect, test } from "vitest";
import { anyDocument } from "../../core/src/decide/policy.testing.ts";
import { notStarted } from "../../faces/service/src/deliver/attempt.ts";
import { Engine } from "../../faces/service/src/engine/engine.ts";
import { isEnded } from "../../faces/service/src/model/task.ts";
import { memoryStore } from "../../faces/service/src/stores/memory/memory-store.ts";
import { pinnedTask } from "../../faces/service/src/stores/store.testing.ts";

/** One attempt of the script: how it ends, and after how long. */
interface Step {
  readonly outcome: Outcome;
  readonly tookMs: number;
}

/** A face's run of a script. Instants are in ms from the start. */
interface Run {
  readonly attemptsAt: readonly number[];
  readonly ending: string;
}

interface Face {
  readonly name: string;
  /** Maximum wait. Long waits are slow, because a service renews its lease. Default: none. */
  readonly maxWaitMs?: number;
  /** Number of random cases. Default: 400. */
  readonly runs?: number;
  run(document: PolicyDocument, seed: number, script: readonly Step[]): Promise<Run> | Run;
}

const START_AT = 1_700_000_000_000;

/** Names the call, and with it the random stream of the call. */
const CALL_ID = "call-1";

/** The last step repeats. */
function stepOf(script: readonly Step[], attempt: number): Step {
  return script[Math.min(attempt, script.length) - 1] as Step;
}

/** The reference for all faces: adds up the delays that `decide` returns. */
const reference: Face = {
  name: "reference",
  run(document, seed, script) {
    const policy = resolvePolicy(document);
    const random = seededRandom(seed).fork(CALL_ID);
    const attemptsAt: number[] = [];
    let now = START_AT;
    let previousDelayMs = 0;
    for (;;) {
      attemptsAt.push(now - START_AT);
      const attempt = attemptsAt.length;
      const { outcome, tookMs } = stepOf(script, attempt);
      now += tookMs;
      const history: CallHistory = { attempt, startedAt: START_AT, previousDelayMs };
      const decision = decide(policy, {}, history, outcome, OPEN_GATES, now, random);
      if (decision.kind === "stop") return { attemptsAt, ending: decision.reason };
      if (decision.kind === "hold") throw new Error("no gate is closed in this script");
      now += decision.delayMs;
      previousDelayMs = decision.ownDelayMs;
    }
  },
};

const library: Face = {
  name: "library",
  async run(document, seed, script) {
    const clock = virtualClock(START_AT);
    const attemptsAt: number[] = [];
    let ending = "";
    const call = retry<Outcome>(
      async ({ attempt }) => {
        attemptsAt.push(clock.now() - START_AT);
        const { outcome, tookMs } = stepOf(script, attempt);
        await clock.sleep(tookMs);
        return outcome;
      },
      {
        ...document,
        clock,
        random: seededRandom(seed),
        idempotencyKey: CALL_ID,
        classify: (end) => ("value" in end ? end.value : undefined),
        onEvent: (event) => {
          if (event.type === "give-up") ending = event.reason;
          if (event.type === "success") ending = "succeeded";
        },
      },
    );
    await clock.run(call.catch((error: unknown) => expect(error).toBeInstanceOf(RedriveError)));
    return { attemptsAt, ending };
  },
};

const simulator: Face = {
  name: "simulator",
  run(document, seed, script) {
    const steps = script.map(({ outcome, tookMs }) => ({ outcome, durationMs: tookMs }));
    const random = seededRandom(seed).fork(CALL_ID);
    const { startsAt, reason } = simulateCall(document, steps, { random, startAt: START_AT });
    return { attemptsAt: startsAt.map((at) => at - START_AT), ending: reason };
  },
};

/** All guards off, so that only the policy, the store and the schedule decide. */
const NO_GUARDS = JSON.stringify({ retryBudget: false, breaker: false, concurrency: false });

const service: Face = {
  name: "service",
  maxWaitMs: 20_000,
  runs: 60,
  async run(document, seed, script) {
    const clock = virtualClock(START_AT);
    const store = memoryStore();
    const task = pinnedTask({ taskId: CALL_ID, createdAt: START_AT, scheduledAt: START_AT });
    const { tenantId, policyId, destination } = task;
    const policy = { tenantId, policyId, version: 1, createdAt: START_AT };
    await store.addPolicy({ ...policy, document: JSON.stringify(document) });
    const attemptsAt: number[] = [];
    const engine = await Engine.open({
      clock,
      random: seededRandom(seed),
      store,
      nodeId: "node-1",
      deliver: ({ attemptNumber }, _, done) => {
        attemptsAt.push(clock.now() - START_AT);
        const { outcome, tookMs } = stepOf(script, attemptNumber);
        clock.alarm(tookMs, () => done({ ...notStarted(outcome, null), durationMs: tookMs }));
      },
    });
    await engine.start();
    await clock.run(engine.changeDestination(tenantId, destination, { document: NO_GUARDS }));
    await clock.run(new Promise((resolve, reject) => engine.create(task, null, resolve, reject)));
    for (;;) {
      const stored = await store.query.get(tenantId, CALL_ID);
      if (stored === null) throw new Error("the task is lost");
      if (isEnded(stored.status)) return { attemptsAt, ending: stored.reason ?? "" };
      await clock.step();
    }
  },
};

const FACES: readonly Face[] = [library, simulator, service];

const anyHint = fc.option(fc.integer({ min: 0, max: 120_000 }), { nil: undefined });

const anyOutcome: fc.Arbitrary<Outcome> = fc.oneof(
  { weight: 1, arbitrary: fc.constant<Outcome>({ kind: "success" }) },
  { weight: 2, arbitrary: fc.constant<Outcome>({ kind: "thrown" }) },
  {
    weight: 6,
    arbitrary: fc
      .record({ status: fc.constantFrom(500, 502, 503, 503, 429, 429, 404), hintMs: anyHint })
      .map(({ status, hintMs }) => statusOutcome(status, hintMs)),
  },
  {
    weight: 2,
    arbitrary: fc
      .constantFrom("connect", "reset", "dns", "tls", "timeout")
      .map((errorClass) => ({ kind: "error", errorClass, sent: true }) as Outcome),
  },
);

/** Maximum duration of an attempt. Below every timeout, because timeouts are coarse by design. */
const MAX_CALL_MS = 90;

const anyScript = fc.array(
  fc.record({ outcome: anyOutcome, tookMs: fc.integer({ min: 0, max: MAX_CALL_MS }) }),
  { minLength: 1, maxLength: 12 },
);

/** The target stays down, so that the policy must end the call. */
const anyPermanentFailure = fc.record({
  outcome: fc.constantFrom<Outcome>({ kind: "thrown" }, { kind: "status", status: 429 }),
  tookMs: fc.integer({ min: 0, max: MAX_CALL_MS }),
});

/** Any policy with time for a call. Thirty attempts show as much as a thousand. */
const anyPolicyWithTimeForACall = anyDocument.map((document): PolicyDocument => {
  const { delaysMs, maxAttempts = 5, minCallMs = 1, totalBudgetMs = 30_000 } = document;
  return {
    ...document,
    ...(delaysMs === undefined && { maxAttempts: Math.min(maxAttempts, 30) }),
    minCallMs: Math.max(minCallMs, MAX_CALL_MS + 1),
    totalBudgetMs: Math.min(totalBudgetMs + MAX_CALL_MS + 1, 365 * 86_400_000),
  };
});

const anyCase = fc.record({
  policy: anyPolicyWithTimeForACall,
  seed: fc.nat(),
  script: fc.oneof(
    anyScript,
    fc.tuple(anyScript, anyPermanentFailure).map(([script, last]) => [...script, last]),
  ),
});

/** The same policy with shorter waits. */
function withShorterWaits(maxMs: number, document: PolicyDocument): PolicyDocument {
  const shorter = (ms: number | undefined) => Math.min(ms ?? 0, maxMs);
  const { delaysMs, initialDelayMs, maxDelayMs, throttleDelayMs, ...rest } = document;
  const maxRetryAfterMs = shorter(rest.maxRetryAfterMs);
  if (delaysMs !== undefined) {
    return { ...rest, maxRetryAfterMs, delaysMs: delaysMs.slice(0, 8).map(shorter) };
  }
  return {
    ...rest,
    maxAttempts: Math.min(rest.maxAttempts ?? 5, 8),
    maxRetryAfterMs,
    initialDelayMs: shorter(initialDelayMs),
    maxDelayMs: shorter(maxDelayMs),
    throttleDelayMs: shorter(throttleDelayMs),
  };
}

describe.each(FACES)("$name", (face) => {
  const { maxWaitMs = Number.POSITIVE_INFINITY, runs = 400 } = face;
  const bounded = (policy: PolicyDocument) =>
    maxWaitMs === Number.POSITIVE_INFINITY ? policy : withShorterWaits(maxWaitMs, policy);

  test("makes the attempts of the reference at the same instants, with the same end", async () => {
    await fc.assert(
      fc.asyncProperty(anyCase, async ({ policy, seed, script }) => {
        const document = bounded(policy);
        expect(await face.run(document, seed, script)).toEqual(
          await reference.run(document, seed, script),
        );
      }),
      { numRuns: runs },
    );
  });

  test("makes four attempts for a fixed policy, seed and script", async () => {
    const policy = { maxAttempts: 4, initialDelayMs: 1000 };
    const script: readonly Step[] = [
      { outcome: { kind: "status", status: 503 }, tookMs: 10 },
      { outcome: { kind: "status", status: 429, retryAfterMs: 2000 }, tookMs: 20 },
      { outcome: { kind: "thrown" }, tookMs: 30 },
    ];
    const run = await face.run(policy, 7, script);
    expect(run).toEqual(await reference.run(policy, 7, script));
    expect(run.attemptsAt).toHaveLength(4);
    expect(run.ending).toBe("attempts");
  });
});
