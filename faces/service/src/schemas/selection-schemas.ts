/**
 * Selection schemas: counts, ids and values of tasks that match a filter, and operations on many
 * tasks, as JSON Schema and as types.
 */
import type { Static } from "typebox";
import { MAX_ID_PAGE } from "../model/task-query.ts";
import { SUGGESTED_FIELDS } from "../operations/selection/suggest-values.ts";
import { Type } from "./schema-builder.ts";
import { filterFields, Status } from "./task-schemas.ts";

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
