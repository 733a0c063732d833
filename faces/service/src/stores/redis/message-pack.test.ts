/** Values that are packed are read back unchanged. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Packable, pack, unpack } from "./message-pack.ts";

const { value } = fc.letrec<{ value: Packable }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constant(null),
    fc.integer({ min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER }),
    fc.integer({ min: -200, max: 70_000 }),
    fc.double({ noNaN: true }).filter((one) => !Object.is(one, -0)),
    fc.string({ unit: "grapheme", maxLength: 80 }),
    fc.array(tie("value"), { maxLength: 40 }),
  ),
}));

describe("a packed value", () => {
  it("is read back unchanged", () => {
    fc.assert(
      fc.property(value, (one) => {
        expect(unpack(pack(one))).toEqual(one);
      }),
    );
  });

  it("may be larger than the first buffer", () => {
    const long = ["a".repeat(3_000_000), Array.from({ length: 70_000 }, (_, n) => n)];
    expect(unpack(pack(long))).toEqual(long);
    expect(unpack(pack("short"))).toBe("short");
  });

  it("has bytes as text", () => {
    expect(unpack(pack(new Uint8Array([65, 66])))).toBe("AB");
  });
});
