/**
 * Schema builder: builds JSON Schemas with the signatures of TypeBox, so that `Static` derives their
 * types. TypeBox itself loads 370 files, which took a fifth of the processor time of a start.
 */
import type { Type as TypeBox } from "typebox";

type Builder = Pick<
  typeof TypeBox,
  | "Array"
  | "Boolean"
  | "Enum"
  | "Integer"
  | "Null"
  | "Number"
  | "Object"
  | "Optional"
  | "Record"
  | "String"
  | "Union"
  | "Unknown"
  | "Unsafe"
>;

type Schema = Readonly<Record<string, unknown>>;
type Properties = Readonly<Record<string, Schema>>;

/** The schemas of fields that may be absent. */
const optional = new WeakSet<Schema>();

/** A key of a record is any text. */
const ANY_KEY = "^.*$";

const named = (type: string) => (options?: Schema) => ({ type, ...options });

function object(properties: Properties, options?: Schema): Schema {
  const required = Object.keys(properties).filter((name) => !isOptional(properties[name]));
  return { type: "object", ...(required.length > 0 && { required }), properties, ...options };
}

function isOptional(schema: Schema | undefined): boolean {
  return schema !== undefined && optional.has(schema);
}

/** A copy, because the same schema may be that of a field that must be present. */
function optionalOf(schema: Schema): Schema {
  const copy = { ...schema };
  optional.add(copy);
  return copy;
}

const builder = {
  Array: (items: Schema, options?: Schema) => ({ type: "array", items, ...options }),
  Boolean: named("boolean"),
  Enum: (values: readonly unknown[], options?: Schema) => ({ enum: values, ...options }),
  Integer: named("integer"),
  Null: named("null"),
  Number: named("number"),
  Object: object,
  Optional: optionalOf,
  Record: (_key: Schema, value: Schema, options?: Schema) => ({
    type: "object",
    patternProperties: { [ANY_KEY]: value },
    ...options,
  }),
  String: named("string"),
  Union: (anyOf: readonly Schema[], options?: Schema) => ({ anyOf, ...options }),
  Unknown: (options?: Schema) => ({ ...options }),
  Unsafe: (schema: Schema) => schema,
};

export const Type: Builder = builder as unknown as Builder;
