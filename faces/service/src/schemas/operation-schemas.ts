/**
 * Operation schemas: the requests and responses of the API for policies, dead letters, redrives and
 * destinations. Core alone validates policies and destinations.
 */
import { policySchema } from "@redrive/core";
import type { Static } from "typebox";
import { REDRIVE_BOUNDS } from "../model/redrive-bounds.ts";
import { LANES } from "../model/task.ts";
import { MAX_ID_PAGE } from "../model/task-query.ts";
import {
  DESTINATION_MEASURES,
  type DestinationMeasure,
  TENANT_MEASURES,
  type TenantMeasure,
} from "../operations/activity.ts";
import { SUGGESTED_FIELDS } from "../operations/selection.ts";
import { Type } from "./schema-builder.ts";
import { filterFields, Status } from "./task-schemas.ts";

const NullableText = Type.Union([Type.String(), Type.Null()]);
const NullableInteger = Type.Union([Type.Integer(), Type.Null()]);

/** Documentation only: core validates. */
export const PolicyToStore = Type.Unsafe<object>({ ...policySchema() });

export const PolicyView = Type.Object({
  policyId: Type.String(),
  version: Type.Integer({ description: "From 1; 0 for a preset that no task has used yet." }),
  source: Type.Enum(["registered", "preset", "inline"]),
  createdAt: NullableInteger,
  document: Type.Unknown({ description: "As registered." }),
  unreadable: Type.Optional(
    Type.String({
      description: "Why this version cannot read the document, so that its tasks are held.",
    }),
  ),
});
export type PolicyView = Static<typeof PolicyView>;

export const PolicyList = Type.Object({ policies: Type.Array(PolicyView) });
export type PolicyList = Static<typeof PolicyList>;

export const PolicyParams = Type.Object({ policyId: Type.String() });
export type PolicyParams = Static<typeof PolicyParams>;

export const VersionQuery = Type.Object(
  { version: Type.Optional(Type.Integer({ minimum: 1 })) },
  { additionalProperties: false },
);
export type VersionQuery = Static<typeof VersionQuery>;

export const DeadLetterQuery = Type.Object(
  {
    ...filterFields,
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 250, default: 50 })),
    cursor: Type.Optional(Type.String({ maxLength: 200 })),
    group: Type.Optional(
      Type.Boolean({ description: "True: return counts by destination and reason instead." }),
    ),
  },
  { additionalProperties: false },
);
export type DeadLetterQuery = Static<typeof DeadLetterQuery>;

export const DeadLetterGroupList = Type.Object({
  groups: Type.Array(
    Type.Object({
      destination: Type.String(),
      reason: NullableText,
      count: Type.Integer(),
      redriven: Type.Integer({ description: "Those that were redriven already." }),
      firstFinishedAt: Type.Integer(),
      lastFinishedAt: Type.Integer(),
    }),
  ),
  complete: Type.Boolean({ description: "False: there are more dead letters than were counted." }),
});
export type DeadLetterGroupList = Static<typeof DeadLetterGroupList>;

export const Discarded = Type.Object({ discarded: Type.Integer() });
export type Discarded = Static<typeof Discarded>;

/** Without `redriven`: the set must not shrink while its members are redriven. */
const { redriven: _, ...redriveFields } = filterFields;
const RedriveFilter = Type.Object(redriveFields, { additionalProperties: false });

export const RedriveToStart = Type.Object(
  {
    filter: Type.Optional(RedriveFilter),
    taskIds: Type.Optional(Type.Array(Type.String({ maxLength: 64 }), REDRIVE_BOUNDS.taskIds)),
    ratePerSecond: Type.Optional(Type.Number(REDRIVE_BOUNDS.ratePerSecond)),
    canary: Type.Optional(
      Type.Integer({
        ...REDRIVE_BOUNDS.canary,
        description: "This many go first; the rest follows if their first attempts succeed.",
      }),
    ),
    dryRun: Type.Optional(
      Type.Boolean({ default: false, description: "True: only count, and store nothing." }),
    ),
  },
  { additionalProperties: false },
);
export type RedriveToStart = Static<typeof RedriveToStart>;

export const RedriveView = Type.Object({
  redriveId: Type.String(),
  status: Type.Enum(["RUNNING", "PAUSED", "DONE", "CANCELLED", "FAILED"]),
  ratePerSecond: Type.Number(),
  canary: Type.Integer(),
  dryRun: Type.Boolean(),
  total: Type.Integer({ description: "Dead letters that were not yet redriven at the start." }),
  redriven: Type.Integer(),
  skipped: Type.Integer({ description: "Dead letters that were not redriven; `skips` says why." }),
  skips: Type.Array(
    Type.Object({
      reason: Type.Enum(["redriven", "unknown-policy", "target-denied", "secret-unavailable"], {
        description:
          "Another caller redrove it; its policy was removed; the API key may not send to its target.",
      }),
      count: Type.Integer(),
      detail: Type.String({ description: "The reason of the first one." }),
      taskIds: Type.Array(Type.String(), { description: "The first task ids, at most 20." }),
    }),
  ),
  createdAt: Type.Integer(),
  finishedAt: NullableInteger,
  error: Type.Union([Type.String(), Type.Null()], {
    description: "Why it failed or paused automatically.",
  }),
  waitsFor: Type.Union([Type.String(), Type.Null()], {
    description: "While it runs: what it waits for. Null: it does not wait.",
  }),
  filter: Type.Union([RedriveFilter, Type.Null()], {
    description: "The frozen filter that selects its dead letters. Null: selected by their ids.",
  }),
});
export type RedriveView = Static<typeof RedriveView>;

export const RedriveList = Type.Object({ redrives: Type.Array(RedriveView) });
export type RedriveList = Static<typeof RedriveList>;

export const RedriveParams = Type.Object({ redriveId: Type.String() });
export type RedriveParams = Static<typeof RedriveParams>;

/** Documentation only: core validates. */
export const DestinationToStore = Type.Unsafe<object>({
  type: "object",
  description: "A destination document; false disables a guard.",
  properties: {
    description: { type: "string", maxLength: 500 },
    policy: {
      anyOf: [{ type: "string" }, policySchema()],
      description: "A policy, or the id of a registered policy or a preset.",
    },
    policyVersion: {
      type: "integer",
      minimum: 1,
      description: "New tasks get this version of the named policy. Default: the newest one.",
    },
    idempotent: { type: "boolean" },
    retryBudget: {},
    breaker: {},
    concurrency: {},
    rate: {},
    hedge: {},
    retryAfterGate: {},
    signingSecrets: {
      type: "array",
      maxItems: 2,
      items: { type: "string" },
      description:
        "Standard Webhooks secrets; each signs every request. Stored encrypted and never shown: a view has a placeholder for each, which keeps it.",
    },
    disableOnGone: {
      type: "boolean",
      description: "A 410 response disables its target URL until it is enabled again.",
    },
    deadLetterUrl: { type: "string", description: "Each dead letter is posted there." },
  },
});

export const DestinationView = Type.Object({
  name: Type.String(),
  document: Type.Unknown({ description: "As configured; null: all defaults." }),
  unreadable: Type.Union([Type.String(), Type.Null()], {
    description:
      "Why this version cannot read the document, so that its tasks are held; null: it can.",
  }),
  pausedAt: NullableInteger,
  disabledTargets: Type.Array(
    Type.Object({ targetUrl: Type.String(), disabledAt: Type.Integer() }),
    { description: "Target URLs that responded 410 (`disableOnGone`), the oldest first." },
  ),
  gateUntil: Type.Integer(),
  breakerState: Type.String(),
  openUntil: Type.Integer(),
  rateUntil: Type.Integer(),
  retryBudget: Type.Enum(["off", "empty", "open"]),
  concurrency: Type.Union([
    Type.Object({ inFlight: Type.Integer(), limit: Type.Integer() }),
    Type.Null(),
  ]),
  latency: Type.Union([Type.Object({ p50Ms: Type.Number(), p99Ms: Type.Number() }), Type.Null()]),
  recent: Type.Object(
    { attempts: Type.Integer(), failed: Type.Integer(), failing: Type.Boolean() },
    {
      description:
        "Attempts of the last five minutes on the node that answers. `failing`: at least half of them failed, and at least three.",
    },
  ),
  tasks: Type.Record(Type.String(), Type.Integer()),
  backlog: Type.Integer({ description: "Waiting and in flight." }),
  nextDueAt: Type.Union([Type.Integer(), Type.Null()], {
    description: "Of the first waiting task.",
  }),
  held: Type.Array(
    Type.Object({
      lane: Type.Enum([...LANES], {
        description: "First attempts, retries, or tasks that were abandoned twice.",
      }),
      by: Type.String({ description: "The guard that holds them." }),
      sinceAt: Type.Integer(),
    }),
    { description: "The due tasks that a guard holds on the node that answers, by lane." },
  ),
});
export type DestinationView = Static<typeof DestinationView>;

export const DestinationList = Type.Object({
  destinations: Type.Array(DestinationView),
  cursor: Type.Union([Type.String(), Type.Null()], {
    description: "For the next page; null on the last. A page before it may be short.",
  }),
});
export type DestinationList = Static<typeof DestinationList>;

export const DestinationQuery = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 250, default: 50 })),
    cursor: Type.Optional(
      Type.String({ maxLength: 500, description: "The cursor of the previous page." }),
    ),
  },
  { additionalProperties: false },
);
export type DestinationQuery = Static<typeof DestinationQuery>;

export const TargetToEnable = Type.Object(
  { targetUrl: Type.String({ maxLength: 2048 }) },
  { additionalProperties: false },
);
export type TargetToEnable = Static<typeof TargetToEnable>;

export const DestinationParams = Type.Object({ name: Type.String() });
export type DestinationParams = Static<typeof DestinationParams>;

// Selection schemas: counts, ids and values of tasks that match a filter, and operations on many
// tasks, as JSON Schema and as types.

const filter = { status: Type.Optional(Status), ...filterFields };

export const CountQuery = Type.Object(filter, { additionalProperties: false });
export type CountQuery = Static<typeof CountQuery>;

export const CountView = Type.Object({
  count: Type.Integer(),
  complete: Type.Boolean({ description: "False: counting took too long, and there may be more." }),
});
export type CountView = Static<typeof CountView>;

export const IdQuery = Type.Object(
  {
    ...filter,
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_ID_PAGE, default: 1000 })),
    cursor: Type.Optional(Type.String({ maxLength: 200 })),
  },
  { additionalProperties: false },
);
export type IdQuery = Static<typeof IdQuery>;

export const IdList = Type.Object({
  taskIds: Type.Array(Type.String()),
  cursor: Type.Union([Type.String(), Type.Null()], {
    description: "For the next page; null on the last. A page before it may be short.",
  }),
});
export type IdList = Static<typeof IdList>;

export const SuggestionQuery = Type.Object(
  {
    ...filter,
    field: Type.Enum([...SUGGESTED_FIELDS]),
    text: Type.Optional(Type.String({ maxLength: 255, description: "Part of the value." })),
  },
  { additionalProperties: false },
);
export type SuggestionQuery = Static<typeof SuggestionQuery>;

export const SuggestionList = Type.Object({
  suggestions: Type.Array(
    Type.Object({
      value: Type.String(),
      count: Type.Integer({ description: "Tasks with this value, among those examined." }),
    }),
    { description: "At most 12. Values that begin with the text come first." },
  ),
});
export type SuggestionList = Static<typeof SuggestionList>;

export const TaskIds = Type.Object(
  { taskIds: Type.Array(Type.String({ maxLength: 64 }), { minItems: 1, maxItems: 1000 }) },
  { additionalProperties: false },
);
export type TaskIds = Static<typeof TaskIds>;

export const ManyResult = Type.Object({
  done: Type.Integer(),
  requested: Type.Integer({
    description: "Cancel only: an attempt is in progress; canceled unless that attempt succeeds.",
  }),
  refused: Type.Array(
    Type.Object({ taskId: Type.String(), code: Type.String(), detail: Type.String() }),
    { description: "Tasks that were not changed, and why." },
  ),
});
export type ManyResult = Static<typeof ManyResult>;

const Counts = Type.Array(Type.Number(), { description: "Sixty values, the oldest first." });

function countsOf<Measure extends string>(measures: readonly Measure[]) {
  const fields = Object.fromEntries(measures.map((measure) => [measure, Counts]));
  return Type.Object(fields as Record<Measure, typeof Counts>);
}

const minutes = {
  firstMinuteAt: Type.Integer({ description: "The start of the first minute. Epoch ms." }),
  minuteMs: Type.Integer(),
};

/** The last hour of a tenant and of a destination, as JSON Schema and as types. */
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
      "successes: calls succeeded while at least half of the limit was used. overload: the target refused calls for overload, or calls timed out. latency: calls became faster or slower, or the target refused many of them. ramp-started: a pause, a Retry-After or an open circuit is over, so the limit restarts at 1. ramp: one more per success, or after a time without the end of a call, until the old limit. document: the document changed.",
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
