/** Operations: mutants of redrives and callbacks. */

/** @type {readonly import("../mutant.mjs").Mutant[]} */
export const operations = [
  {
    name: "a redrive continues though its canary fails",
    in: "RedriveRun.#checkCanary",
    search: "if (failed > taskIds.length * MAX_FAILED_SHARE) {",
    replace: "if (false) {",
  },
  {
    name: "a canary with exactly a fifth of failures pauses the redrive",
    in: "RedriveRun.#checkCanary",
    search: "failed > taskIds.length * MAX_FAILED_SHARE",
    replace: "failed >= taskIds.length * MAX_FAILED_SHARE",
  },
  {
    name: "a redrive has no pace",
    in: "RedriveRun.#createTask",
    search: "    await this.#pace();\n",
    replace: "",
  },
  {
    name: "lost time is caught up in a burst",
    in: "RedriveRun.#pace",
    search: "Math.max(this.#dueMs, nowMs() - STEP_MS) + 1000",
    replace: "this.#dueMs + 1000",
  },
  {
    name: "a redrive continues though a circuit opens",
    in: "RedriveRun.#next",
    search: "if (opened !== undefined) return opened;",
    replace: "if (opened === null) return opened;",
  },
  {
    name: "a redrive creates tasks for a destination that cannot take them",
    in: "RedriveRun.#next",
    search: "if (held === undefined) break;",
    replace: "if (held !== null) break;",
  },
  {
    name: "a failing store ends the redrive",
    in: "PASSING",
    search: 'const PASSING = ["STORE_UNAVAILABLE", "STORE_FULL"];',
    replace: "const PASSING: string[] = [];",
  },
  {
    name: "a retry that waits counts as open for the canary",
    in: "RedriveRun.#verdict",
    search: 'task.status === "PENDING" && task.attemptNumber > 0 ? "failed" : "open"',
    replace: '"open"',
  },
  {
    name: "a skipped dead letter uses a slot of the pace",
    in: "RedriveRun.#skip",
    search: "    this.#dueMs -= 1000 / this.#job.ratePerSecond;\n",
    replace: "",
  },
  {
    name: "a circuit that was open before the redrive pauses it",
    in: "CircuitWatch.opened",
    search: "if (before === undefined) return undefined;",
    replace:
      'if (before === undefined) return rows.find((row) => row.breakerState !== "CLOSED")?.name;',
  },
  {
    name: "a circuit of another destination pauses the redrive",
    in: "CircuitWatch.opened",
    search: "this.#destinations.has(row.name) && hasOpened",
    replace: "hasOpened",
  },
  {
    name: "a minute of the last hour is counted again an hour later",
    in: "MinuteCounts.#moveTo",
    search: "for (const counts of this.#counts.values()) counts[slotOfMinute(passed)] = 0;",
    replace: "",
  },
  {
    name: "the counts of this node are added to its saved ones",
    in: "ActivityRecorder.ofTenant",
    search: "      .filter(({ id }) => id !== this.#source.engine.nodeId)\n",
    replace: "",
  },
  {
    name: "counts that could not be saved are forgotten",
    in: "ActivityRecorder.#save",
    search: "for (const [, tenant] of slice) tenant.isChanged = true;",
    replace: "",
  },
  {
    name: "the stored count ignores the other fields of a filter",
    in: "storedCount",
    search: "if (Object.keys(others).length > 0) return undefined;",
    replace: "",
  },
  {
    name: "a callback for a returned attempt counts it",
    in: "endOf",
    search: "attemptNumber: attemptsAfter(task, settle)",
    replace: "attemptNumber: task.attemptNumber",
  },
  {
    name: "no callback for a cancel that wins",
    in: "followUpsOf",
    search: 'status === "PENDING" ? cancelled : { ...cancelled, [status]',
    replace: 'status === "PENDING" ? undefined : { [status]',
  },
];
