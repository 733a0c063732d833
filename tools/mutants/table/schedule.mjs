/** Schedule: mutants of the scheduler and the commit loop, and of core where the service relies on it. */
import { inService } from "../mutant.mjs";

const schedule = [
  inService("engine/scheduler.ts", [
    {
      name: "a lane waits for a share after its due task has moved to another node",
      search: "if (isWaitingForSlot(lane) || isClaiming(lane)) continue;",
      replace: "if (lane.state.kind === 'waiting' || isClaiming(lane)) continue;",
    },
    {
      name: "a lane of suspects starves behind other lanes",
      search: "const suspect = withSuspect ? this.#planSuspect(now) : undefined;",
      replace: "const suspect = undefined as PlannedClaim | undefined;",
    },
    {
      name: "a deep lane takes the whole limit",
      search: "Math.floor(share / (count - index))",
      replace: "share",
    },
    {
      name: "blocked lanes are not checked again",
      search: "      else this.#schedule(lane);\n    }\n  }\n\n  #wouldAdmit",
      replace: "    }\n  }\n\n  #wouldAdmit",
    },
    {
      name: "a later instant replaces an earlier one",
      search: "} else if (dueAt < lane.dueAt) lane.dueAt = dueAt;",
      replace: "} else if (dueAt !== lane.dueAt) lane.dueAt = dueAt;",
    },
  ]),
  inService("engine/scheduler.ts", [
    {
      name: "scarce permits let a task overtake an older one of the other lane",
      search: "if (isFree) return",
      replace: "if (isFree || true) return",
    },
    {
      name: "a task of the commit of a claim counts as unknown to the claim",
      search: "for (const { lane } of claims) lane.arrivals = undefined;",
      replace: "",
    },
  ]),
  inService("engine/scheduler.ts", [
    {
      name: "a claim forgets a wake-up that arrived meanwhile",
      search: "for (const [partition, dueAt] of arrivals ?? [])",
      replace: "for (const [partition, dueAt] of [] as [number, number][])",
    },
  ]),
  inService("engine/scheduler.ts", [
    {
      name: "a new task overtakes tasks that wait",
      search: "if (first.dueAt <= now) return false;",
      replace: "",
    },
    {
      name: "a new task waits for a retry that a guard holds",
      search: "|| isWaitingForGuard(retry);",
      replace: ";",
    },
  ]),
  inService("engine/scheduler.ts", [
    {
      name: "an adaptive rate or a throttle admits several tasks per claim",
      search: "if (adaptiveRate || throttle) return ONE_BY_ONE;",
      replace: "",
    },
    {
      name: "a claim takes only the tokens of now",
      search: "tokensMs: isClosed(breaker) ? TOKENS_MS : 0",
      replace: "tokensMs: 0",
    },
    {
      name: "a probe is claimed before there is a token",
      search: "tokensMs: isClosed(breaker) ? TOKENS_MS : 0",
      replace: "tokensMs: TOKENS_MS",
    },
    {
      name: "a probe is claimed ahead of time",
      search: "if (!isClosed(breaker)) return 0;",
      replace: "",
    },
  ]),
  inService("engine/held-claims.ts", [
    {
      name: "a claim waits a minute for a token",
      search: "const MAX_WAIT_MS = 200;",
      replace: "const MAX_WAIT_MS = 60_000;",
    },
    {
      name: "a claim that waits for a token is sent after its recall",
      search: "if (!claim.isWaiting) continue;\n      if (this.mayWait",
      replace: "if (this.mayWait",
    },
  ]),
  inService("engine/runner.ts", [
    {
      name: "a new claim overtakes those that wait for a token",
      search: "else if (this.#tokenQueue.isWaiting(destination)) this.#waitForToken(claim);",
      replace: "",
    },
  ]),
  inService("engine/destination-runtime.ts", [
    {
      name: "a rate limit's tokens are sent at once",
      search: "    return admission.start(permit, now);",
      replace: "    admission.start(permit, now);\n    return true;",
    },
  ]),
  inService("engine/commit.ts", [
    {
      name: "a second suspect is claimed",
      search: "!runner.hasSuspect() && !this.#mayHaveUnknownSuspect",
      replace: "!this.#mayHaveUnknownSuspect",
    },
    {
      name: "a second suspect is claimed after an unknown commit",
      search: "!runner.hasSuspect() && !this.#mayHaveUnknownSuspect",
      replace: "!runner.hasSuspect()",
    },
    {
      name: "the settles of a failed commit are lost",
      search: "      queue.restore(commit.settles, written);\n",
      replace: "",
    },
    {
      name: "a closed loop acknowledges a commit",
      search:
        "      failItems(commit, this.#closedBy);\n      return;\n    }\n    if (this.#pause.isFailing)",
      replace: "    }\n    if (this.#pause.isFailing)",
    },
    {
      name: "a second suspect is claimed beside a running commit",
      search: "    if (this.#running.hasSuspect()) return false;\n",
      replace: "",
    },
    {
      name: "work between commits runs beside one",
      search:
        "if (this.#isClosed || this.#pause.isActive || this.#running.count > 0) return false;",
      replace: "",
    },
  ]),
  inService("engine/commit.ts", [
    {
      name: "a failed commit is repeated without a pause",
      search: "Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures++)",
      replace: "0",
    },
  ]),
  inService("engine/commit.ts", [
    {
      name: "results are applied as they arrive",
      search: "    running.apply = apply;\n    this.#applyNext();",
      replace: "    this.#running.splice(this.#running.indexOf(running), 1);\n    void apply?.();",
    },
    {
      name: "a commit starts while another one writes a row",
      search: "this.#running.every(({ commit }) => commit.written.length === 0)",
      replace: "true",
    },
  ]),
  inService("engine/commit.ts", [
    {
      name: "a stopping node claims tasks",
      search: "const mayClaim = node.isActive();",
      replace: "const mayClaim = true;",
    },
    {
      name: "a scheduled task is claimed at once",
      search: "create.task.scheduledAt > now || node.isLoading",
      replace: "node.isLoading",
    },
  ]),
  inService("engine/commit.ts", [
    {
      name: "creates starve behind settles",
      search: "Math.max(1, max - taken)",
      replace: "max - taken",
    },
  ]),
];

/** Only the tests of the service must find these. */
const core = [
  {
    file: "core/src/guards/admission.ts",
    name: "the slow start after a circuit closes is missing",
    search:
      "if (closed && breaker === own && concurrency !== undefined) restartRamp(concurrency, now);",
    replace: "",
    tests: ["faces/service/src/engine/slow-start.test.ts"],
  },
  {
    file: "core/src/guards/admission.ts",
    name: "claimed first attempts count for the retry budget before they are sent",
    search: "if (isRetry || !isPlanned) {",
    replace: "if (isRetry || !isPlanned || kind === 'first') {",
    tests: ["faces/service/src/engine/service-retry-budget.test.ts", "core/src/guards/planned"],
  },
  {
    file: "core/src/guards/admission.ts",
    name: "sent first attempts do not count for the retry budget",
    search:
      'if (permit.kind === "first") this.tokens.take(permit, false, now, false, permit.patient);',
    replace: "",
    tests: ["faces/service/src/engine/service-retry-budget.test.ts", "core/src/guards/planned"],
  },
  {
    file: "core/src/guards/admission.ts",
    name: "the permits of a claim that no task needs are kept",
    search: "    this.count(batch.kind, -counted);\n",
    replace: "",
    tests: ["core/src/guards/planned"],
  },
];

export const schedules = [...schedule.flat(), ...core];
