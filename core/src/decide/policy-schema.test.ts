/** Tests that the published schema is the table that validates. */
import { expect, test } from "vitest";
import { POLICY_FIELDS, resolvePolicy } from "./policy.ts";
import { policySchema } from "./policy-schema.ts";

const properties = policySchema()["properties"] as Record<string, Record<string, unknown>>;

test("every field of the table has a description and a type, and no other field is allowed", () => {
  expect(Object.keys(properties)).toEqual(Object.keys(POLICY_FIELDS));
  for (const property of Object.values(properties)) {
    expect(property["description"]).toMatch(/^[A-Z].*\.$/);
    expect(property["type"] ?? property["enum"]).toBeDefined();
  }
  expect(policySchema()["additionalProperties"]).toBe(false);
});

test("ranges and defaults are those of the validator", () => {
  expect(properties["maxAttempts"]).toMatchObject({
    type: "integer",
    minimum: 1,
    maximum: 1000,
    default: 5,
  });
  expect(properties["multiplier"]).toMatchObject({
    type: "number",
    minimum: 1,
    maximum: 10,
    default: 2,
  });
  expect(properties["jitterType"]).toMatchObject({
    enum: expect.arrayContaining(["FULL"]),
    default: "FULL",
  });
  expect(properties["delaysMs"]).toMatchObject({
    type: "array",
    items: { type: "integer" },
    minItems: 1,
  });
  expect(properties["respectRetryAfter"]).toMatchObject({ type: "boolean", default: true });
  expect(properties["policyId"]).not.toHaveProperty("default");
});

test("a document made of the schema's defaults is the default policy", () => {
  const defaults = Object.entries(properties).filter(([, property]) => "default" in property);
  const document = Object.fromEntries(
    defaults.map(([name, property]) => [name, property["default"]]),
  );
  expect(resolvePolicy(document)).toEqual(resolvePolicy({}));
});
