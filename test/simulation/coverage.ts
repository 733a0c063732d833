/**
 * Coverage: which events have met a task in which state. A simulation that never cancels a running
 * task proves nothing about cancelling one.
 */
import type { Committed } from "./history.ts";

export class Coverage {
  readonly #counts = new Map<string, number>();
  readonly totals = { seeds: 0, tasks: 0, crashes: 0, pauses: 0, stops: 0, steps: 0 };
  readonly faults: Record<string, number> = {};

  #count(state: string, event: string): void {
    const key = `${state.padEnd(10)} ${event}`;
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
  }

  committed({ batch, result, tasksBefore }: Committed): void {
    for (const create of result.creates) {
      const claimed = create.kind === "created" && create.started !== null;
      this.#count("(none)", claimed ? "created claimed" : create.kind);
    }
    for (const [index, { taskId, attempt }] of batch.settles.entries()) {
      const before = tasksBefore.get(taskId);
      const how = attempt === null ? "given back" : attempt.outcome;
      const cancelling = before?.cancelRequestedAt === null ? "" : ", cancel requested";
      this.#count(
        before?.status ?? "(none)",
        `settle ${how}${cancelling}: ${result.settles[index]}`,
      );
    }
    for (const [index, { taskId }] of batch.cancels.entries()) {
      this.#count(
        tasksBefore.get(taskId)?.status ?? "(none)",
        `cancel: ${result.cancels[index]?.kind}`,
      );
    }
    for (const [index, { taskId }] of batch.wakes.entries()) {
      this.#count(
        tasksBefore.get(taskId)?.status ?? "(none)",
        `wake: ${result.wakes[index]?.kind}`,
      );
    }
    for (const [index, { lane }] of batch.claims.entries()) {
      const claim = result.claims[index];
      if (claim?.row) this.#count("PENDING", `claim ${lane}: row moved`);
      else if (claim && claim.tasks.length > 0) this.#count("PENDING", `claim ${lane}`);
    }
  }

  addFaults(counts: Readonly<Record<string, number>>): void {
    for (const [kind, count] of Object.entries(counts)) {
      this.faults[kind] = (this.faults[kind] ?? 0) + count;
    }
  }

  has(state: string, event: string): boolean {
    return [...this.#counts.keys()].some(
      (key) => key.startsWith(state) && key.slice(11).startsWith(event),
    );
  }

  report(): string {
    const lines = [...this.#counts]
      .sort()
      .map(([key, count]) => `  ${String(count).padStart(9)}  ${key}`);
    const totals = JSON.stringify({ ...this.totals, faults: this.faults });
    return [`coverage of (state, event) over ${totals}`, ...lines].join("\n");
  }
}
