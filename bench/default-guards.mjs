/**
 * Default guards: measures how the service's default guards affect a destination that has spare
 * capacity but fails some attempts at random, and the load that they allow in a full outage. The
 * engine runs on virtual time and a memory store, so the results depend only on the seed.
 *
 * Build first: `npx tsc -b faces/service`. Other guards can be passed as JSON:
 * `node bench/default-guards.mjs '{"retryBudget":{"ratio":0.5}}'`.
 */
import { seededRandom, statusOutcome, virtualClock } from "@redrive/core";
import { notStarted } from "../faces/service/dist/deliver/attempt.js";
import { Engine } from "../faces/service/dist/engine/engine.js";
import { memoryStore } from "../faces/service/dist/stores/memory/memory-store.js";

const TENANT = "default";
const DESTINATION = "https://example.com";
const START_AT = 1_800_000_000_000;
const RUN_MS = 60_000;
/** Longer than the total budget, so that every task has ended. */
const REST_MS = 120_000;
const POLICY = {
  maxAttempts: 6,
  initialDelayMs: 20,
  maxDelayMs: 200,
  totalBudgetMs: 30_000,
};
const CALL_MS = 20;

/** @type {import("@redrive/core").Outcome} */
const REFUSED = { kind: "error", errorClass: "connect", sent: false };

/** @typedef {(random: import("@redrive/core").Random) => import("@redrive/core").Outcome} OutcomeOf */

/** @type {Readonly<Record<string, OutcomeOf>>} */
const OUTCOMES = {
  "30 % fail with 500": (random) => (random.next() < 0.3 ? statusOutcome(500) : statusOutcome(200)),
  "30 % fail with 503": (random) => (random.next() < 0.3 ? statusOutcome(503) : statusOutcome(200)),
  "all fail with 503": () => statusOutcome(503),
  "all fail to connect": () => REFUSED,
};

/** @param {number} number @param {number} at */
function taskAt(number, at) {
  return {
    taskId: `task-${String(number).padStart(8, "0")}`,
    tenantId: TENANT,
    idempotencyKey: null,
    destination: DESTINATION,
    targetUrl: `${DESTINATION}/`,
    method: "POST",
    headers: {},
    body: null,
    bodyRef: null,
    policyId: "bench",
    policyVersion: 1,
    idempotent: true,
    deadlineAt: null,
    createdAt: at,
    scheduledAt: at,
    labels: {},
    callbackUrl: null,
    redrivenFrom: null,
  };
}

/**
 * @param {number} perSecond
 * @param {OutcomeOf} outcomeOf
 * @param {object | undefined} document
 */
async function run(perSecond, outcomeOf, document, seed = "default-guards") {
  const clock = virtualClock(START_AT);
  const random = seededRandom(seed);
  const store = memoryStore();
  await store.addPolicy({
    tenantId: TENANT,
    policyId: "bench",
    version: 1,
    createdAt: START_AT,
    document: JSON.stringify(POLICY),
  });
  const target = random.fork("target");
  /** @type {Record<string, number>} */
  const ended = {};
  const counts = { attempts: 0, firsts: 0, attemptsInRun: 0, ended };
  const engine = await Engine.open({
    clock,
    random: random.fork("engine"),
    store,
    nodeId: "node-1",
    deliver: (task, _, done) => {
      counts.attempts++;
      if (clock.now() < START_AT + RUN_MS) counts.attemptsInRun++;
      if (task.attemptNumber === 1) counts.firsts++;
      const outcome = outcomeOf(target);
      const status = outcome.kind === "status" ? outcome.status : null;
      const result = { ...notStarted(outcome, null), status, durationMs: CALL_MS };
      clock.alarm(CALL_MS, () => done(result));
    },
  });
  let limit = Number.POSITIVE_INFINITY;
  engine.events.listen(({ type, reason }) => {
    if (!type.startsWith("task.") || type === "task.created") return;
    const end = type === "task.succeeded" ? "succeeded" : `${reason}`;
    ended[end] = (ended[end] ?? 0) + 1;
  });
  await engine.start();
  if (document !== undefined) {
    await engine.changeDestination(TENANT, DESTINATION, { document: JSON.stringify(document) });
  }
  const { guards } = engine.destination(TENANT, DESTINATION);
  const tasks = (perSecond * RUN_MS) / 1000;
  const arrivals = random.fork("arrivals");
  let created = 0;
  let at = 0;
  const arrive = () => {
    created++;
    const nothing = () => {};
    engine.create(taskAt(created, clock.now()), null, nothing, nothing);
    limit = Math.min(limit, guards.concurrency?.estimate.limit ?? limit);
    if (created === tasks) return;
    at += (-Math.log(1 - arrivals.next()) * 1000) / perSecond;
    clock.alarm(Math.max(0, Math.floor(START_AT + at - clock.now())), arrive);
  };
  clock.alarm(0, arrive);
  await clock.advance(RUN_MS);
  await clock.advance(REST_MS);
  await Promise.all([engine.stop(), clock.advance(40_000)]);
  return { ...counts, tasks: created, lowestLimit: limit };
}

const document = process.argv[2] === undefined ? undefined : JSON.parse(process.argv[2]);
for (const [name, outcomeOf] of Object.entries(OUTCOMES)) {
  for (const perSecond of [100, 500]) {
    const { tasks, attempts, firsts, attemptsInRun, ended, lowestLimit } = await run(
      perSecond,
      outcomeOf,
      document,
    );
    const shares = Object.fromEntries(
      Object.entries(ended).map(([end, count]) => [end, `${((100 * count) / tasks).toFixed(2)} %`]),
    );
    console.log(
      JSON.stringify({
        target: name,
        perSecond,
        tasks,
        ended: shares,
        attempts,
        firsts,
        load: Number((attempts / Math.max(1, firsts)).toFixed(3)),
        attemptsPerSecondInRun: Number((attemptsInRun / (RUN_MS / 1000)).toFixed(2)),
        lowestLimit: Number(lowestLimit.toFixed(1)),
      }),
    );
  }
}
