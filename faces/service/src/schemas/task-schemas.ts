/**
 * Task schemas: the requests and responses of the API for tasks, their waits, attempts, bodies and
 * events, as JSON Schema and as types. They serialize responses and validate queries.
 * `task-input.ts` alone validates a new task; its schema here is documentation.
 */
import { policySchema } from "@redrive/core";
import type { Static } from "typebox";
import { TASK_STATUSES, type WaitCause } from "../model/task.ts";
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

const Wait = Type.Object({
  cause: Cause,
  sinceAt: Type.Integer(),
  durationMs: Type.Integer(),
});

/** The wait of a task that is not running now. */
const CurrentWait = Type.Object({
  cause: Cause,
  sinceAt: Type.Integer({
    description: "Since when it has waited for this cause. Epoch milliseconds.",
  }),
  untilAt: Type.Union([Type.Integer(), Type.Null()], {
    description:
      "When the wait ends at the latest, or the next probe of the circuit. Null: not known. Epoch milliseconds.",
  }),
});

const NullableText = Type.Union([Type.String(), Type.Null()]);
const NullableInteger = Type.Union([Type.Integer(), Type.Null()]);
const Texts = Type.Record(Type.String(), Type.String());

/** The log of attempts in responses of the API, as JSON Schema and as types. */
const StatusNumber = Type.Union([Type.Integer(), Type.Null()], {
  description:
    "Of an HTTP response, or the number of a gRPC code (0 to 16), which brokers have too.",
});

const Phases = Type.Object({
  dnsMs: Type.Union([Type.Number(), Type.Null()]),
  connectMs: Type.Union([Type.Number(), Type.Null()]),
  tlsMs: Type.Union([Type.Number(), Type.Null()]),
  firstByteMs: Type.Union([Type.Number(), Type.Null()]),
});

export const AttemptView = Type.Object({
  attemptNumber: Type.Integer(),
  startedAt: Type.Integer(),
  durationMs: Type.Integer(),
  phases: Type.Union([Phases, Type.Null()]),
  outcome: Type.String(),
  responseStatus: StatusNumber,
  errorClass: NullableText,
  errorMessage: NullableText,
  responseHeaders: Type.Union([Texts, Type.Null()]),
  responseBody: Type.Optional(Type.String()),
  responseBodyBase64: Type.Optional(Type.String()),
  nextDelayMs: NullableInteger,
  delaySource: NullableText,
  waits: Type.Array(Wait, {
    description:
      "The waits before the attempt, oldest first. A wait of less than 100 ms after the due instant is left out.",
  }),
});
export type AttemptView = Static<typeof AttemptView>;

export const AttemptList = Type.Object({
  attempts: Type.Array(AttemptView),
  cursor: NullableText,
});
export type AttemptList = Static<typeof AttemptList>;

// Task schemas: the requests and responses of the API for tasks, as JSON Schema and as types. They
// serialize responses and validate queries. `task-input.ts` alone validates a new task; its schema
// here is documentation.

export const Status = Type.Enum([...TASK_STATUSES]);

const instant = (description: string) =>
  Type.Integer({ description: `${description} Epoch milliseconds.` });

/** Documentation only: `checkInput` validates. */
export const TaskToCreate = Type.Object(
  {
    targetUrl: Type.String({
      description:
        "Where the request goes. http, https, grpc, grpcs, amqp, amqps, redis-stream or rediss-stream, at most 2048 bytes.",
    }),
    method: Type.Optional(
      Type.Enum(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"], {
        default: "POST",
      }),
    ),
    headers: Type.Optional(
      Type.Record(Type.String(), Type.String(), { description: "At most 100, 16 KiB in total." }),
    ),
    body: Type.Optional(
      Type.String({ description: "Sent unchanged, in UTF-8. Above 1 MiB: see POST /forward." }),
    ),
    bodyBase64: Type.Optional(
      Type.String({ description: "A body of arbitrary bytes, in Base64." }),
    ),
    json: Type.Optional(
      Type.Unknown({ description: "Sent as application/json, byte for byte as received." }),
    ),
    bodyRef: Type.Optional(
      Type.String({
        description:
          "A stored body instead: the bodyRef of another task, or of POST /bodies. It must exist.",
      }),
    ),
    policyId: Type.Optional(
      Type.String({ default: "background", description: "A registered policy, or a preset." }),
    ),
    policy: Type.Optional(
      Type.Unsafe<object>({ ...policySchema(), description: "An inline policy instead." }),
    ),
    idempotencyKey: Type.Optional(
      Type.String({
        maxLength: 255,
        description: "Same as the header Idempotency-Key. Visible ASCII.",
      }),
    ),
    destination: Type.Optional(
      Type.String({
        description: "The destination whose guards apply. Default: the origin of the URL.",
      }),
    ),
    idempotent: Type.Optional(
      Type.Boolean({
        default: true,
        description: "False: an attempt that may have taken effect is not repeated.",
      }),
    ),
    scheduledAt: Type.Optional(instant("No attempt before this instant, within 365 days.")),
    deadlineAt: Type.Optional(instant("No attempt ends after this instant.")),
    labels: Type.Optional(
      Type.Record(Type.String(), Type.String(), { description: "At most 32, for searching." }),
    ),
    callbackUrl: Type.Optional(Type.String()),
  },
  { additionalProperties: false },
);

export const TaskReceipt = Type.Object({ taskId: Type.String(), status: Status });
export type TaskReceipt = Static<typeof TaskReceipt>;

export const TaskView = Type.Object({
  taskId: Type.String(),
  tenantId: Type.String(),
  status: Status,
  reason: Type.Union([Type.String(), Type.Null()], { description: "Why it ended." }),
  idempotencyKey: NullableText,
  destination: Type.String(),
  targetUrl: Type.String({
    description: "Query values are masked without the scope payload:read.",
  }),
  method: Type.String(),
  headers: Type.Record(Type.String(), Type.String(), {
    description: "Values are masked unless the header is known to be harmless.",
  }),
  bodyRef: Type.Union([Type.String(), Type.Null()], {
    description:
      "The body in the blob store, as ID.LENGTH.SHA256; null: it is in the row, or there is none.",
  }),
  policyId: Type.String(),
  policyVersion: Type.Integer(),
  idempotent: Type.Boolean(),
  attemptNumber: Type.Integer({ description: "Attempts started so far." }),
  nextAttemptAt: Type.Union([Type.Integer(), Type.Null()], {
    description: "Null once it has ended.",
  }),
  createdAt: Type.Integer(),
  scheduledAt: Type.Integer(),
  deadlineAt: NullableInteger,
  lastDelayMs: Type.Integer(),
  cancelRequestedAt: NullableInteger,
  lastStatus: StatusNumber,
  lastError: Type.Union([Type.String(), Type.Null()], {
    description:
      "The error of the last attempt or, with the reason held, the guard that held the task.",
  }),
  labels: Texts,
  callbackUrl: NullableText,
  redrivenFrom: NullableText,
  redrivenTo: NullableText,
  finishedAt: NullableInteger,
  body: Type.Optional(Type.String({ description: "With include=body, if it is text." })),
  bodyBase64: Type.Optional(Type.String({ description: "With include=body, if it is not." })),
  bodyUrl: Type.Optional(
    Type.String({ description: "With include=body, if it is in the blob store: where to get it." }),
  ),
  explain: Type.Optional(
    Type.String({ description: "With include=explain: why it is not running now." }),
  ),
  wait: Type.Optional(
    Type.Union([CurrentWait, Type.Null()], {
      description:
        "With include=explain: what a waiting task waits for. Null: it is running or has ended, or nothing holds it.",
    }),
  ),
});
export type TaskView = Static<typeof TaskView>;

export const TaskList = Type.Object({
  tasks: Type.Array(TaskView),
  cursor: Type.Union([Type.String(), Type.Null()], {
    description: "For the next page; null on the last.",
  }),
});
export type TaskList = Static<typeof TaskList>;

export const CancelView = Type.Object({
  taskId: Type.String(),
  status: Type.Enum(["CANCELLED", "IN_FLIGHT"]),
  cancelRequestedAt: NullableInteger,
});
export type CancelView = Static<typeof CancelView>;

export const TaskParams = Type.Object({ taskId: Type.String() });
export type TaskParams = Static<typeof TaskParams>;

export const Include = Type.Object(
  {
    include: Type.Optional(
      Type.String({
        pattern: "^(body|explain)(,(body|explain))*$",
        description: "body (requires payload:read), explain, or both separated by a comma.",
      }),
    ),
  },
  { additionalProperties: false },
);
export type Include = Static<typeof Include>;

const pageFields = {
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 250, default: 50 })),
  cursor: Type.Optional(
    Type.String({ maxLength: 200, description: "The cursor of the previous page." }),
  ),
};

export const PageQuery = Type.Object(
  { ...pageFields, include: Type.Optional(Type.Enum(["body"])) },
  { additionalProperties: false },
);
export type PageQuery = Static<typeof PageQuery>;

/** The fields that select tasks; a task must match all given fields. */
export const filterFields = {
  policyId: Type.Optional(Type.String({ maxLength: 64 })),
  destination: Type.Optional(Type.String({ maxLength: 255 })),
  label: Type.Optional(
    Type.String({ maxLength: 1100, pattern: "^[\\w.:/-]{1,64}=", description: "As name=value." }),
  ),
  idempotencyKey: Type.Optional(Type.String({ maxLength: 255 })),
  reason: Type.Optional(Type.String({ maxLength: 40 })),
  lastStatus: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 999,
      description: "Of HTTP, or the number of a gRPC code, which brokers have too.",
    }),
  ),
  createdFrom: Type.Optional(instant("Created at or after.")),
  createdTo: Type.Optional(instant("Created before.")),
  finishedFrom: Type.Optional(instant("Ended at or after.")),
  finishedTo: Type.Optional(instant("Ended before.")),
  redriven: Type.Optional(
    Type.Boolean({ description: "Whether it was redriven, as a new task. Default: either." }),
  ),
};

export const ListQuery = Type.Object(
  { status: Type.Optional(Status), ...filterFields, ...pageFields },
  { additionalProperties: false },
);
export type ListQuery = Static<typeof ListQuery>;

export const DeadFilterFields = Type.Object(filterFields, { additionalProperties: false });
export type DeadFilterFields = Static<typeof DeadFilterFields>;

/** The response of the API to a batch of tasks, as JSON Schema and as a type. */
export const BatchResult = Type.Object({
  accepted: Type.Integer(),
  refused: Type.Integer(),
  results: Type.Array(
    Type.Object({
      status: Type.Integer({ description: "The status that a single create would have returned." }),
      taskId: Type.Optional(Type.String()),
      replayed: Type.Optional(Type.Boolean()),
      code: Type.Optional(Type.String()),
      detail: Type.Optional(Type.String()),
      errors: Type.Optional(
        Type.Array(Type.Object({ field: Type.String(), message: Type.String() })),
      ),
    }),
    { description: "In the order of the tasks." },
  ),
});
export type BatchResult = Static<typeof BatchResult>;

/** The responses of the API for stored bodies, as JSON Schema and as types. */
export const UploadedBody = Type.Object({
  bodyRef: Type.String({ description: "For the field bodyRef of new tasks." }),
  length: Type.Integer({ description: "In bytes." }),
  sha256: Type.String({ description: "In hexadecimal." }),
});
export type UploadedBody = Static<typeof UploadedBody>;

/** The query of `GET /events`, and an event as readers get it. */
export const EventQuery = Type.Object(
  {
    type: Type.Optional(
      Type.String({
        maxLength: 500,
        pattern: "^[a-z]+([.-][a-z-]+)*(,[a-z]+([.-][a-z-]+)*)*$",
        description:
          "Types separated by commas, such as attempt.failed, or their first part: task, attempt, destination. Default: all.",
      }),
    ),
    destination: Type.Optional(Type.String({ maxLength: 255 })),
    taskId: Type.Optional(Type.String({ maxLength: 100 })),
    label: Type.Optional(
      Type.String({ maxLength: 1100, pattern: "^[\\w.:/-]{1,64}=", description: "As name=value." }),
    ),
    lastEventId: Type.Optional(
      Type.String({
        maxLength: 200,
        description: "Same as the header Last-Event-ID, for the first connection of a browser.",
      }),
    ),
  },
  { additionalProperties: false },
);
export type EventQuery = Static<typeof EventQuery>;

/** The data of an event. */
export const EventView = Type.Object({
  id: Type.String({ description: "<node>-<number>, in order within a node." }),
  at: Type.Integer(),
  type: Type.String(),
  tenantId: Type.Optional(Type.String()),
  taskId: Type.Optional(Type.String()),
  destination: Type.Optional(Type.String()),
  labels: Type.Optional(Type.Record(Type.String(), Type.String())),
  attemptNumber: Type.Optional(Type.Integer()),
  reason: Type.Optional(Type.String()),
  by: Type.Optional(
    Type.String({ description: "With the reason held: the guard that held the task." }),
  ),
  nextAttemptAt: Type.Optional(Type.Integer()),
  policyId: Type.Optional(Type.String()),
  createdAt: Type.Optional(Type.Integer()),
  lagMs: Type.Optional(Type.Number()),
  heldBy: Type.Optional(Type.String()),
  waits: Type.Optional(Type.Array(Wait)),
  attempt: Type.Optional(
    Type.Object({
      outcome: Type.String(),
      responseStatus: NullableInteger,
      errorClass: NullableText,
      durationMs: Type.Number(),
      nextDelayMs: NullableInteger,
      delaySource: NullableText,
      settleMs: Type.Number(),
    }),
  ),
});
export type EventView = Static<typeof EventView>;
