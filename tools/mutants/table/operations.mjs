/** Operations: mutants of redrives and callbacks. */
import { inService } from "../mutant.mjs";

export const operations = [
  inService("operations/redrive-run.ts", [
    {
      name: "a redrive continues though its canary fails",
      search: "if (failed > taskIds.length * MAX_FAILED_SHARE) {",
      replace: "if (false) {",
    },
    {
      name: "a canary with exactly a fifth of failures pauses the redrive",
      search: "failed > taskIds.length * MAX_FAILED_SHARE",
      replace: "failed >= taskIds.length * MAX_FAILED_SHARE",
    },
    {
      name: "a redrive has no pace",
      search: "    await this.#pace();\n",
      replace: "",
    },
    {
      name: "lost time is caught up in a burst",
      search: "Math.max(this.#dueMs, nowMs() - STEP_MS) + 1000",
      replace: "this.#dueMs + 1000",
    },
    {
      name: "a redrive continues though a circuit opens",
      search: "if (opened !== undefined) return opened;",
      replace: "if (opened === null) return opened;",
    },
    {
      name: "a redrive creates tasks for a destination that cannot take them",
      search: "if (held === undefined) break;",
      replace: "if (held !== null) break;",
    },
    {
      name: "a failing store ends the redrive",
      search: 'const PASSING = ["STORE_UNAVAILABLE", "STORE_FULL"];',
      replace: "const PASSING: string[] = [];",
    },
    {
      name: "a retry that waits counts as open for the canary",
      search: 'task.status === "PENDING" && task.attemptNumber > 0 ? "failed" : "open"',
      replace: '"open"',
    },
    {
      name: "a skipped dead letter uses a slot of the pace",
      search: "    this.#dueMs -= 1000 / this.#job.ratePerSecond;\n",
      replace: "",
    },
  ]),
  inService("operations/redrive-run.ts", [
    {
      name: "a circuit that was open before the redrive pauses it",
      search: "if (before === undefined) return undefined;",
      replace:
        'if (before === undefined) return rows.find((row) => row.breakerState !== "CLOSED")?.name;',
    },
    {
      name: "a circuit of another destination pauses the redrive",
      search: "this.#destinations.has(row.name) && hasOpened",
      replace: "hasOpened",
    },
  ]),
  inService("operations/activity.ts", [
    {
      name: "a minute of the last hour is counted again an hour later",
      search: "for (const counts of this.#counts.values()) counts[slotOfMinute(passed)] = 0;",
      replace: "",
    },
  ]),
  inService("operations/activity.ts", [
    {
      name: "the counts of this node are added to its saved ones",
      search: "      .filter(({ id }) => id !== this.#source.engine.nodeId)\n",
      replace: "",
    },
    {
      name: "counts that could not be saved are forgotten",
      search: "for (const [, tenant] of slice) tenant.isChanged = true;",
      replace: "",
    },
  ]),
  inService("operations/selection.ts", [
    {
      name: "the stored count ignores the other fields of a filter",
      search: "if (Object.keys(others).length > 0) return undefined;",
      replace: "",
    },
  ]),
  inService("operations/follow-ups.ts", [
    {
      name: "a callback for a returned attempt counts it",
      search: "attemptNumber: attemptsAfter(task, settle)",
      replace: "attemptNumber: task.attemptNumber",
    },
    {
      name: "no callback for a cancel that wins",
      search: 'status === "PENDING" ? cancelled : { ...cancelled, [status]',
      replace: 'status === "PENDING" ? undefined : { [status]',
    },
  ]),
].flat();
