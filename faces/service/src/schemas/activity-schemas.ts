/** Activity schemas: the last hour of a tenant and of a destination, as JSON Schema and as types. */
import type { Static } from "typebox";
import {
  DESTINATION_MEASURES,
  type DestinationMeasure,
  TENANT_MEASURES,
  type TenantMeasure,
} from "../operations/activity/activity-counts.ts";
import { Type } from "./schema-builder.ts";

const Counts = Type.Array(Type.Number(), { description: "Sixty values, the oldest first." });

function countsOf<Measure extends string>(measures: readonly Measure[]) {
  const fields = Object.fromEntries(measures.map((measure) => [measure, Counts]));
  return Type.Object(fields as Record<Measure, typeof Counts>);
}

const minutes = {
  firstMinuteAt: Type.Integer({ description: "The start of the first minute. Epoch ms." }),
  minuteMs: Type.Integer(),
};

export const ActivityView = Type.Object({
  ...minutes,
  counts: countsOf<TenantMeasure>(TENANT_MEASURES),
});
export type ActivityView = Static<typeof ActivityView>;

const LimitChangeView = Type.Object({
  sinceAt: Type.Integer({ description: "When the first of its steps happened. Epoch ms." }),
  at: Type.Integer({ description: "When the last of its steps happened. Epoch ms." }),
  from: Type.Integer(),
  to: Type.Integer(),
  cause: Type.Enum(["successes", "overload", "latency", "ramp-started", "ramp", "document"], {
    description:
      "successes: calls succeeded while at least half of the limit was used. overload: the target refused a call for overload, or a call timed out. latency: calls became faster or slower, or the target refused many of them. ramp-started: a pause, a Retry-After or an open circuit is over, so the limit restarts at 1. ramp: one more per success until the old limit. document: the document changed.",
  }),
  detail: Type.Union([Type.String(), Type.Null()], {
    description: "The response or error that caused the last step.",
  }),
  steps: Type.Integer(),
});

export const DestinationHistory = Type.Object({
  ...minutes,
  counts: countsOf<DestinationMeasure>(DESTINATION_MEASURES),
  limits: Type.Array(LimitChangeView, {
    description: "The latest changes of the concurrency limit, the oldest first; at most 60.",
  }),
});
export type DestinationHistory = Static<typeof DestinationHistory>;
