/** Base64 with and without `Buffer` gives the same text, and the same bytes back. */
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { base64Of, bytesOfBase64 } from "./base64.ts";

const roundTrip = (bytes: Uint8Array) => {
  const text = base64Of(bytes);
  return { text, bytes: [...bytesOfBase64(text)] };
};

test("is the same in every runtime, and returns the bytes", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), fc.nat(5), (bytes, offset) => {
      const part = bytes.subarray(Math.min(offset, bytes.length));
      const expected = { text: Buffer.from(part).toString("base64"), bytes: [...part] };
      expect(roundTrip(part)).toEqual(expected);
      vi.stubGlobal("Buffer", undefined);
      const portable = roundTrip(part);
      vi.unstubAllGlobals();
      expect(portable).toEqual(expected);
    }),
  );
});

test("has no limit on the length without Buffer", () => {
  const bytes = new Uint8Array(200_001).map((_, index) => index);
  vi.stubGlobal("Buffer", undefined);
  const text = base64Of(bytes);
  vi.unstubAllGlobals();
  expect(text).toBe(Buffer.from(bytes).toString("base64"));
});
