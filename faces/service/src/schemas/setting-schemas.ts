/** Setting schemas: the API keys and the alerts of a service, as JSON Schema and as types. */
import type { Static } from "typebox";
import { Type } from "./schema-builder.ts";

const NullableInteger = Type.Union([Type.Integer(), Type.Null()]);
const NullableText = Type.Union([Type.String(), Type.Null()]);

export const KeyView = Type.Object({
  keyId: Type.String(),
  name: Type.String(),
  tenantId: Type.String(),
  scopes: Type.Array(Type.String()),
  createdAt: Type.Integer(),
  expiresAt: NullableInteger,
  limits: Type.Object(
    {
      requestsPerSecond: Type.Optional(Type.Number()),
      requestsAtOnce: Type.Optional(Type.Number()),
      maxWaiting: Type.Optional(Type.Number()),
      targets: Type.Optional(Type.String()),
    },
    { description: "Limits of this key; absent: the limits of the service." },
  ),
  isOwn: Type.Boolean({ description: "The key of this request." }),
  isRevocable: Type.Boolean({ description: "False: it is set where the service is started." }),
});
export type KeyView = Static<typeof KeyView>;

export const KeyList = Type.Object({
  isRequired: Type.Boolean({ description: "False: the service has no keys and requires none." }),
  isChangeable: Type.Boolean({
    description: "False: keys cannot be created here, because the service has no key file.",
  }),
  keys: Type.Array(KeyView),
});
export type KeyList = Static<typeof KeyList>;

/** `setting-routes.ts` validates, so that the messages name the scopes and quote the value. */
export const KeyToCreate = Type.Object(
  {
    name: Type.String({ maxLength: 100, description: "For people." }),
    scopes: Type.Array(Type.String(), { minItems: 1 }),
    tenantId: Type.Optional(
      Type.String({
        description: "Default: that of the caller. Only the operator may set another.",
      }),
    ),
    expiresAt: Type.Optional(Type.Integer({ description: "Default: it does not expire." })),
  },
  { additionalProperties: false },
);
export type KeyToCreate = Static<typeof KeyToCreate>;

export const CreatedKey = Type.Object({
  ...KeyView.properties,
  key: Type.String({ description: "The key itself. It is shown only here." }),
});
export type CreatedKey = Static<typeof CreatedKey>;

export const KeyParams = Type.Object({ keyId: Type.String() });
export type KeyParams = Static<typeof KeyParams>;

export const AlertsView = Type.Object({
  url: Type.Union([Type.String(), Type.Null()], {
    description: "Where alerts are posted, with masked query values. Null: nowhere.",
  }),
  destination: Type.Union([Type.String(), Type.Null()], {
    description: "The destination of the tasks that post them.",
  }),
  deadLetterRatio: Type.Union([Type.Number(), Type.Null()]),
  minDeadLetters: NullableInteger,
  windowMs: NullableInteger,
  lateMs: NullableInteger,
  repeatMs: NullableInteger,
  runbookUrl: NullableText,
  firing: Type.Array(
    Type.Object({
      alert: Type.String(),
      sinceAt: Type.Integer(),
      tenantId: NullableText,
      destination: NullableText,
    }),
    { description: "Of the whole fleet." },
  ),
});
export type AlertsView = Static<typeof AlertsView>;

export const TestAlert = Type.Object({ taskId: Type.String() });
export type TestAlert = Static<typeof TestAlert>;
