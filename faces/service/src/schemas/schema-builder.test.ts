/** The schema builder gives the same schemas as TypeBox, whose types it has. */
import { Type as TypeBox } from "typebox";
import { expect, test } from "vitest";
import { Type } from "./schema-builder.ts";

type Build = (builder: typeof Type) => object;

const schemas: Readonly<Record<string, Build>> = {
  "scalars with options": (type) =>
    type.Object({
      list: type.Array(type.Integer({ minimum: 1 }), { maxItems: 3 }),
      flag: type.Boolean({ default: true }),
      nothing: type.Null(),
      share: type.Number({ maximum: 1 }),
      name: type.String({ maxLength: 255, description: "A name." }),
      anything: type.Unknown({ description: "As received." }),
    }),
  "an object without required fields": (type) =>
    type.Object({ name: type.Optional(type.String()) }, { additionalProperties: false }),
  "a schema that is optional in one place only": (type) => {
    const name = type.String();
    return type.Object({ first: type.Optional(name), second: name });
  },
  "enums, unions and records": (type) =>
    type.Object({
      status: type.Enum(["on", "off"], { default: "on" }),
      text: type.Union([type.String(), type.Null()], { description: "Or null." }),
      labels: type.Optional(
        type.Record(type.String(), type.String(), { description: "At most 32." }),
      ),
    }),
  "a schema from elsewhere": (type) =>
    type.Object({
      policy: type.Optional(type.Unsafe<object>({ type: "object", minProperties: 1 })),
    }),
};

test.each(Object.entries(schemas))("%s", (_, build) => {
  expect(JSON.stringify(build(Type))).toBe(JSON.stringify(build(TypeBox)));
});
