/**
 * Operation schemas: the requests and responses of the API for policies, dead letters, redrives and
 * destinations. Core alone validates policies and destinations.
 */
import { policySchema } from "@redrive/core";
import type { Static } from "typebox";
import { REDRIVE_BOUNDS } from "../model/redrive-bounds.ts";
import { LANES } from "../model/task.ts";
import { Type } from "./schema-builder.ts";
import { filterFields } from "./task-schemas.ts";

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
      reason: Type.Enum(["redriven", "unknown-policy", "target-denied"], {
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
    policy: { anyOf: [{ type: "string" }, policySchema()] },
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
