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
      search: "const why = (await this.#openCircuit(member)) ?? (await this.#redrive(member));",
      replace: "const why = await this.#redrive(member);",
    },
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
  inService("operations/follow-ups.ts", [
    {
      name: "a callback for a returned attempt counts it",
      search: "task.attemptNumber - (attempt === null ? 1 : 0)",
      replace: "task.attemptNumber",
    },
    {
      name: "no callback for a cancel that wins",
      search: 'status === "PENDING" ? cancelled : { ...cancelled, [status]',
      replace: 'status === "PENDING" ? undefined : { [status]',
    },
  ]),
].flat();
