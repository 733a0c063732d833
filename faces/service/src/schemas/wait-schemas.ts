/** Wait schemas: the waits of tasks and attempts in the API, as JSON Schema and as types. */
import type { Static } from "typebox";
import type { WaitCause } from "../model/task.ts";
import { Type } from "./schema-builder.ts";

const WAIT_CAUSES: readonly WaitCause[] = [
  "policy",
  "retry-after",
  "circuit-open",
  "retry-budget",
  "concurrency",
  "rate",
  "throttle",
  "pause",
  "late",
];
const Cause = Type.Enum([...WAIT_CAUSES], {
  description:
    "policy: the delay of the policy. late: no guard held it, but no node started it. Otherwise the guard that held it.",
});

export const Wait = Type.Object({
  cause: Cause,
  sinceAt: Type.Integer(),
  durationMs: Type.Integer(),
});

/** The wait of a task that is not running now. */
export const CurrentWait = Type.Object({
  cause: Cause,
  sinceAt: Type.Integer({
    description: "Since when it has waited for this cause. Epoch milliseconds.",
  }),
  untilAt: Type.Union([Type.Integer(), Type.Null()], {
    description:
      "When the wait ends at the latest, or the next probe of the circuit. Null: not known. Epoch milliseconds.",
  }),
});
export type CurrentWait = Static<typeof CurrentWait>;
