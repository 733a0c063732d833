/** The hash is SHA-256, is the same in every runtime, and keeps its parts apart. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { sha256, webSha256 } from "./sha256.ts";

test("is SHA-256 over the framed parts", async () => {
  const expected = createHash("sha256").update("text 2:abbytes 1:\u0001").digest("hex");
  expect(await sha256(["ab", Uint8Array.of(1)])).toBe(expected);
});

test("is the same without node:crypto", async () => {
  const part = fc.oneof(fc.string({ unit: "binary" }), fc.uint8Array());
  await fc.assert(
    fc.asyncProperty(fc.array(part), async (parts) => {
      expect(await webSha256(parts)).toBe(await sha256(parts));
    }),
    { numRuns: 50, examples: [[["\ud800", "\udc00"]], [["\u20ac".repeat(6000)]]] },
  );
});

test.each([16_000, 16_384, 16_385, 100_000])("hashes %d bytes as it does fewer", async (length) => {
  const parts = ["head", new Uint8Array(length).fill(7), "tail"];
  expect(await sha256(parts)).toBe(await webSha256(parts));
});

test.each([
  [
    ["ab", "c"],
    ["a", "bc"],
  ],
  [["a"], ["a", ""]],
  [["a"], [Uint8Array.of(97)]],
])("differs for %j and %j", async (one, other) => {
  expect(await sha256(one)).not.toBe(await sha256(other));
});
