/** Tests of gRPC messages: a message is read as it was written, whatever its parts. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { framedMessage, MAX_RESPONSE_BYTES, MessageReader, messagePrefix } from "./message.ts";

/** Cuts bytes at the given places. */
function parts(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b)];
  return places.map((from, index) => bytes.subarray(from, places[index + 1] ?? bytes.length));
}

describe("a message", () => {
  it("is read without its prefix, in any parts, with anything after it", () => {
    const bytes = fc.uint8Array({ maxLength: 300 });
    fc.assert(
      fc.property(bytes, bytes, fc.array(fc.nat(700), { maxLength: 6 }), (body, rest, cuts) => {
        const reader = new MessageReader();
        for (const part of parts(Buffer.concat([framedMessage(body), rest]), cuts)) {
          expect(reader.add(part)).toBe(true);
        }
        expect(Buffer.from(reader.body?.stored([], true) ?? [])).toEqual(Buffer.from(body));
        expect(reader.isComplete()).toBe(true);
      }),
    );
  });

  it("that breaks off is not complete", () => {
    const reader = new MessageReader();
    expect(reader.isComplete()).toBe(true);
    reader.add(Buffer.from([0, 0]));
    expect(reader.isComplete()).toBe(false);
    reader.add(Buffer.from([0, 0, 2, 7]));
    expect(reader.isComplete()).toBe(false);
    reader.add(Buffer.from([8]));
    expect(reader.isComplete()).toBe(true);
  });

  it("is refused above 4 MiB as soon as its length is known", () => {
    const limit = MAX_RESPONSE_BYTES - 5;
    expect(new MessageReader().add(messagePrefix(limit))).toBe(true);
    expect(new MessageReader().add(messagePrefix(limit + 1))).toBe(false);
  });
});
