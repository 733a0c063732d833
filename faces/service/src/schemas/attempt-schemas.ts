/** Attempt schemas: the log of attempts in responses of the API, as JSON Schema and as types. */
import type { Static } from "typebox";
import { Type } from "./schema-builder.ts";
import { Wait } from "./wait-schemas.ts";

const NullableText = Type.Union([Type.String(), Type.Null()]);
const NullableInteger = Type.Union([Type.Integer(), Type.Null()]);
const Texts = Type.Record(Type.String(), Type.String());

export const StatusNumber = Type.Union([Type.Integer(), Type.Null()], {
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
