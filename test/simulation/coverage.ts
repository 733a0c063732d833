/**
 * Coverage: counts which events happened to tasks in which state. A simulation that never cancels a
 * running task proves nothing about such a cancel.
 */
import type { SettleResult } from "../../faces/service/src/model/batch.ts";
import type { Committed } from "./history.ts";

export class Coverage {
  /** By state, then by event. */
  readonly #counts = new Map<string, Map<string, number>>();
  readonly totals = {
    seeds: 0,
    tasks: 0,
    crashes: 0,
    pauses: 0,
    sleeps: 0,
    stops: 0,
    steps: 0,
    singles: 0,
  };
  readonly faults: Record<string, number> = {};

  #count(state: string, event: string): void {
    const counts = this.#counts.get(state) ?? new Map<string, number>();
    this.#counts.set(state, counts);
    counts.set(event, (counts.get(event) ?? 0) + 1);
  }

  committed(event: Committed): void {
    const { batch, result, tasksBefore } = event;
    this.#countRows(event);
    this.#countCreates(event);
    for (const [index, { taskId, attempt }] of batch.settles.entries()) {
      const before = tasksBefore.get(taskId);
      const how = attempt === null ? "released" : attempt.outcome;
      const cancel = before?.state.cancelRequestedAt === null ? "" : ", cancel requested";
      const settled = result.settles[index] as SettleResult;
      const callback =
        settled !== "fenced" && settled !== "PENDING" && before?.task.callbackUrl
          ? ", with a callback"
          : "";
      this.#count(
        before?.state.status ?? "(none)",
        `settle ${how}${cancel}: ${settled}${callback}`,
      );
    }
    for (const [index, { taskId }] of batch.cancels.entries()) {
      const before = tasksBefore.get(taskId);
      const kind = result.cancels[index]?.kind;
      const isEnd = kind === "cancelled" && before?.state.status === "PENDING";
      const callback = isEnd && before.task.callbackUrl ? ", with a callback" : "";
      this.#count(before?.state.status ?? "(none)", `cancel: ${kind}${callback}`);
    }
    for (const [index, { taskId }] of batch.retryNows.entries()) {
      this.#count(
        tasksBefore.get(taskId)?.state.status ?? "(none)",
        `retry now: ${result.retryNows[index]?.kind}`,
      );
    }
    for (const [index, { lane }] of batch.claims.entries()) {
      const claim = result.claims[index];
      if (claim?.row) this.#count("PENDING", `claim ${lane}: row moved`);
      else if (claim && claim.tasks.length > 0) this.#count("PENDING", `claim ${lane}`);
    }
  }

  /** Counts changes to destination rows, by the state of the destination's breaker. */
  #countRows({ batch, result, rowsBefore }: Committed): void {
    for (const [index, { row }] of batch.destinations.entries()) {
      const before = rowsBefore.get(row.name);
      const isRefused = result.destinations[index] !== null;
      const put = isRefused ? "refused" : "written";
      const state = before?.breakerState ?? "(none)";
      const pausedBefore = before?.pausedAt ?? null;
      if ((before?.document ?? null) !== row.document) this.#count(state, `document ${put}`);
      else if (pausedBefore !== row.pausedAt) {
        this.#count(state, `${row.pausedAt === null ? "resume" : "pause"} ${put}`);
      } else this.#count(state, `breaker or gate ${put}`);
    }
    if (batch.documents.length > 0) this.#count("(guards)", "saved");
  }

  #countCreates({ batch, result, tasksBefore }: Committed): void {
    for (const [index, create] of result.creates.entries()) {
      const source = batch.creates[index]?.task.redrivenFrom ?? null;
      const claimed = create.kind === "created" && create.started !== null;
      const kind = claimed ? "created claimed" : create.kind;
      if (source === null) this.#count("(none)", kind);
      else this.#count(tasksBefore.get(source)?.state.status ?? "(gone)", `redrive: ${kind}`);
    }
  }

  /** Counts that a redrive job was stored with this status. */
  redrive(status: string): void {
    this.#count("(job)", status);
  }

  /** Counts that a process restored the guard state that an earlier one saved. */
  guardsRestored(): void {
    this.#count("(guards)", "restored");
  }

  addFaults(counts: Readonly<Record<string, number>>): void {
    for (const [kind, count] of Object.entries(counts)) {
      this.faults[kind] = (this.faults[kind] ?? 0) + count;
    }
  }

  has(state: string, event: string): boolean {
    const events = [...(this.#counts.get(state)?.keys() ?? [])];
    return events.some((one) => one.startsWith(event));
  }

  report(): string {
    const lines = [...this.#counts].flatMap(([state, counts]) =>
      [...counts].map(([event, count]) => [`${state.padEnd(10)} ${event}`, count] as const),
    );
    const totals = JSON.stringify({ ...this.totals, faults: this.faults });
    const table = lines.sort().map(([key, count]) => `  ${String(count).padStart(9)}  ${key}`);
    return [`coverage of (state, event) over ${totals}`, ...table].join("\n");
  }
}
