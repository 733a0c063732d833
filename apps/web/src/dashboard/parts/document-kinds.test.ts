/** Tests that documents are checked by core, and that a fix keeps what the user wrote. */
import { expect, test } from "vitest";
import { changesOf } from "./document-editor.tsx";
import { destinationKind, policyKind, readDraft } from "./document-kinds.ts";

test("a text that is no document is explained", () => {
  expect(readDraft(policyKind, "{")).toMatchObject({
    problems: [expect.stringMatching(/not JSON/)],
  });
  expect(readDraft(policyKind, "[]")).toEqual({
    problems: ["The document must be a JSON object."],
  });
  expect(readDraft(policyKind, '{ "maxAttempts": 0 }')).toMatchObject({
    problems: [expect.stringContaining("got 0")],
  });
  expect(readDraft(destinationKind, '{ "braker": {} }')).toMatchObject({
    problems: [expect.stringContaining("breaker")],
  });
});

test("fields that only the service knows are kept and compared", () => {
  const before = destinationKind.resolve({});
  const after = destinationKind.resolve({ disableOnGone: true, breaker: false });
  const fields = changesOf(before, after).map(({ field }) => field);
  expect(fields).toContain("disableOnGone");
  expect(fields.some((field) => field.startsWith("breaker"))).toBe(true);
});

test("a removed field shows its default", () => {
  const before = policyKind.resolve({ maxAttempts: 9 });
  expect(changesOf(before, policyKind.resolve({}))).toEqual([
    { field: "maxAttempts", before: "9", after: "5" },
  ]);
});

test("a fix adds what it changes, and none of the defaults", () => {
  const document = { rate: { perSecond: 5 }, deadLetterUrl: "https://x.test/" };
  const subject = destinationKind.lintSubject(document);
  expect(subject).not.toHaveProperty("deadLetterUrl");
  const fixed = { ...(subject as object), breaker: { minCalls: 100 } };
  expect(destinationKind.withFix(document, fixed)).toEqual({
    ...document,
    breaker: { minCalls: 100 },
  });
});
