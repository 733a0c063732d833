/** Body schemas: the responses of the API for stored bodies, as JSON Schema and as types. */
import type { Static } from "typebox";
import { Type } from "./schema-builder.ts";

export const UploadedBody = Type.Object({
  bodyRef: Type.String({ description: "For the field bodyRef of new tasks." }),
  length: Type.Integer({ description: "In bytes." }),
  sha256: Type.String({ description: "In hexadecimal." }),
});
export type UploadedBody = Static<typeof UploadedBody>;
