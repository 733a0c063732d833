/**
 * Attempt trace: how the engine reports one attempt to a tracer. Without a tracer, nothing of this runs.
 * `telemetry/` implements it.
 */
import type { AttemptResult } from "../../deliver/attempt-result.ts";
import type { Settle, StartedTask } from "../../model/batch.ts";
import type { AttemptWait } from "../../model/task.ts";

export interface AttemptTrace {
  /** Sent to the target, so that its spans continue the trace. */
  readonly traceparent: string;
  /** The attempt has ended. */
  recordResult(result: AttemptResult): void;
  /** It is decided what follows. Called once, last. */
  end(settle: Settle): void;
}

/** Called immediately before an attempt starts. `waits`: since the attempt was due. `now`: epoch ms. */
export type StartTrace = (
  task: StartedTask,
  waits: readonly AttemptWait[],
  now: number,
) => AttemptTrace;
