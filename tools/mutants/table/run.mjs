/** Run: mutants of the run of a task in the engine, from its claim to its settle. */
import { inService } from "../mutant.mjs";

export const run = [
  inService("engine/rescuer.ts", [
    {
      name: "a claim that this node runs is rescued",
      search: "!this.#settling.has(keyOf(claim)) && !this.#parts.runner.holds(claim)",
      replace: "!this.#settling.has(keyOf(claim))",
    },
    {
      name: "a claim is rescued again while its settle is under way",
      search: "!this.#settling.has(keyOf(claim)) && !this.#parts.runner.holds(claim)",
      replace: "!this.#parts.runner.holds(claim)",
    },
    {
      name: "a claim that is settled while its policy loads is rescued",
      search: "    if (!this.#isFree(task)) return;\n",
      replace: "",
    },
    {
      name: "unknown claims of this node are never released",
      search: "if (health.mayHaveUnknownClaims() || this.#isCompareDue())",
      replace: "if (false)",
    },
    {
      name: "known claims hide the unknown ones",
      search: "SLICE + runner.heldCount() + this.#settling.size",
      replace: "SLICE",
    },
    {
      name: "a full slice waits for the next maintenance",
      search: "this.#hasMore = claims.length === SLICE;",
      replace: "this.#hasMore = false;",
    },
    {
      name: "the destination of a rescued task may be dropped",
      search: "    destination.users++;\n",
      replace: "",
    },
  ]),
  inService("engine/runner.ts", [
    {
      name: "a claim ahead of time is sent at once",
      search: "if (task.nextAttemptAt > this.#parts.time.now()) this.#sendQueue.add(claim);",
      replace: "if (false) this.#sendQueue.add(claim);",
    },
    {
      name: "a stopping node sends its claims",
      search: "!this.#parts.node.mayStart(task.claimedAt)",
      replace: "false",
    },
    {
      name: "an attempt may take longer than the task has left",
      search: "Math.min(policy.attemptTimeoutMs, leftMs)",
      replace: "policy.attemptTimeoutMs",
    },
    {
      name: "a retry is sent though the document allows none",
      search: "destination.refusesRetries && task.attemptNumber > 1",
      replace: "false",
    },
    {
      name: "a first attempt is refused where the document allows no retries",
      search: "destination.refusesRetries && task.attemptNumber > 1",
      replace: "destination.refusesRetries",
    },
    {
      name: "a gate that closed during the commit is ignored",
      search: "else if (destination.maySend(permit, now, throttled))",
      replace: "else if (destination.maySend(permit, now, throttled) || true)",
    },
    {
      name: "a claim of another tenant is recalled",
      search: "|| task.taskId !== taskId || task.tenantId !== tenantId",
      replace: "|| task.taskId !== taskId",
      equivalent: "task ids are unique, and the store has already checked the tenant of the cancel",
    },
    {
      name: "a canceled task that waits to be sent is not recalled",
      search: "      this.#release(claim);\n      return true;",
      replace: "      return true;",
    },
    {
      name: "a released claim keeps its permit",
      search: "    destination.returnPermit(permit, now);\n",
      replace: "",
    },
    {
      name: "the end of an attempt does not wake the tasks that wait for its slot",
      search: "durationMs);\n    this.#parts.scheduler.unblock(destination, now);",
      replace: "durationMs);",
    },
    {
      name: "a returned permit does not wake the tasks that wait for it",
      search: "permit, now);\n    this.#parts.scheduler.unblock(destination, now);",
      replace: "permit, now);",
    },
    {
      name: "an attempt that this node aborted counts as an outcome of the target",
      search: 'const isLost = result.outcome.kind === "aborted";',
      replace: "const isLost = false;",
    },
    {
      name: "a throttled retry has the price of other retries",
      search: "const throttled = wasThrottled(policy, task);",
      replace: "const throttled = false;",
    },
    {
      name: "a refused target ends like a failed one",
      search: 'errorClass === "target-denied" ?',
      replace: "errorClass === null ?",
    },
    {
      name: "a removed policy leaves its tasks claimed",
      search: 'if (loaded === null) this.#expire(claim, "not-retryable");',
      replace: "if (loaded === null) return;",
    },
    {
      name: "a task whose policy cannot be read stays claimed",
      search: "() => this.#release(claim, this.#parts.time.now() + POLICY_RETRY_MS),",
      replace: "() => {},",
    },
    {
      name: "the lag of an attempt is negative",
      search: "Math.max(0, now - nextAttemptAt)",
      replace: "now - nextAttemptAt",
      equivalent: "an attempt starts at or after the instant at which it is due",
    },
  ]),
  inService("engine/settlement.ts", [
    {
      name: "a task that kills its node is never poison",
      search: "abandonedCountOf(ending) >= MAX_ABANDONED",
      replace: "false",
    },
    {
      name: "an attempt that a stopping node cut off accuses the task",
      search: "isCutOff ? 0 : 1",
      replace: "1",
    },
    {
      name: "an outcome does not clear the count of abandoned claims",
      search: 'if (outcome.kind !== "abandoned") return 0;',
      replace: 'if (outcome.kind !== "abandoned") return task.abandonedCount;',
    },
    {
      name: "every attempt draws the same jitter",
      search: "for (let n = 1; n < task.attemptNumber; n++) stream.next();",
      replace: "",
    },
    {
      name: "a released retry waits among first attempts",
      search: "laneOf(task.attemptNumber - 1, task.abandonedCount)",
      replace: "laneOf(0, task.abandonedCount)",
    },
    {
      name: "a released first attempt waits among retries",
      search: "laneOf(task.attemptNumber - 1, task.abandonedCount)",
      replace: "laneOf(task.attemptNumber, task.abandonedCount)",
    },
    {
      name: "a lost last attempt ends as out of attempts",
      search:
        'isLost && decision.reason === "attempts" ? { ...decision, reason: "abandoned" } : decision',
      replace: "isLost ? decision : decision",
    },
    {
      name: "the duration of an abandoned attempt includes the wait for its instant",
      search: "Math.max(task.claimedAt, task.nextAttemptAt)",
      replace: "task.claimedAt",
    },
  ]),
  inService("engine/held-claims.ts", [
    {
      name: "the destination of a running task may be dropped",
      search: "    destination.users++;\n",
      replace: "",
    },
    {
      name: "a suspect does not count as one",
      search: "if (claim.isSuspect) this.#suspects++;",
      replace: "",
    },
    {
      name: "a suspect that ended still counts",
      search: "if (claim.isSuspect) this.#suspects--;",
      replace: "",
    },
    {
      name: "the end of a claim removes another one",
      search: "    last.slot = claim.slot;\n",
      replace: "",
    },
  ]),
  inService("engine/settlement.ts", [
    {
      name: "a retry waits for the next reading of the store",
      search: "scheduler.expectTask(lane, task.taskId, settle.nextAttemptAt);",
      replace: "",
    },
    {
      name: "a callback waits for the next reading of the store",
      search: "  scheduleFollowUps(scheduler, destinations, settle.onEnd, result);\n",
      replace: "",
    },
  ]),
].flat();
