/** Tests that every text is stored, read back and sorted as it is. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { originalJson, originalText, storedJson, storedText } from "./sql.ts";

const characters = fc.constantFrom("\0", "\u0001", "\u0002", "0", "1", "a", "ü", "\\", '"', "😀");
const texts = fc.array(characters).map((list) => list.join(""));

it("stores every text without NUL, and reads it back", () => {
  fc.assert(
    fc.property(texts, (text) => {
      expect(storedText(text)).not.toContain("\0");
      expect(originalText(storedText(text))).toBe(text);
    }),
  );
});

it("keeps the order of texts", () => {
  const orderOf = (one: string, other: string) =>
    Buffer.compare(Buffer.from(one), Buffer.from(other));
  fc.assert(
    fc.property(texts, texts, (one, other) => {
      expect(orderOf(storedText(one), storedText(other))).toBe(orderOf(one, other));
    }),
  );
});

it("stores the texts of JSON in the same way, and replaces half of a surrogate pair", () => {
  fc.assert(
    fc.property(fc.array(texts), (list) => {
      const json = storedJson(list);
      expect(json).not.toContain("\\u0000");
      expect(JSON.parse(json)).toEqual(list.map(storedText));
      expect(originalJson(json)).toEqual(list);
    }),
  );
  expect(JSON.parse(storedJson(["a\ud800b"]))).toEqual(["a\uFFFDb"]);
});
