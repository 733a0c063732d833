/** Batch schemas: the response of the API to a batch of tasks, as JSON Schema and as a type. */
import type { Static } from "typebox";
import { Type } from "./schema-builder.ts";

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
