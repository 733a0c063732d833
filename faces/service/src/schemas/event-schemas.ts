/** Event schemas: the query of `GET /events`, and an event as readers get it. */
import type { Static } from "typebox";
import { Type } from "./schema-builder.ts";
import { Wait } from "./wait-schemas.ts";

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

const NullableInteger = Type.Union([Type.Integer(), Type.Null()]);
const NullableText = Type.Union([Type.String(), Type.Null()]);

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
