/** Tests of the readers of AMQP and RESP: the pieces in which bytes arrive make no difference. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FrameReader, frame } from "./amqp.ts";
import { BrokerFailure } from "./broker-session.ts";
import { RespReader, type RespReply, respCommand } from "./redis-stream.ts";

/** The bytes in pieces of the given lengths. */
function pieces(bytes: Buffer, lengths: readonly number[]): Buffer[] {
  const found: Buffer[] = [];
  let at = 0;
  for (const length of lengths) {
    found.push(bytes.subarray(at, at + length));
    at += length;
  }
  return [...found, bytes.subarray(at)].filter(({ length }) => length > 0);
}

const cuts = fc.array(fc.integer({ min: 1, max: 12 }), { maxLength: 40 });

describe("frames of AMQP", () => {
  const one = fc.tuple(
    fc.constantFrom(1, 2, 3, 8),
    fc.integer({ min: 0, max: 65_535 }),
    fc.uint8Array({ maxLength: 30 }),
  );

  it("are the same in whatever pieces they arrive", () => {
    fc.assert(
      fc.property(fc.array(one, { maxLength: 6 }), cuts, (frames, lengths) => {
        const read: unknown[] = [];
        const reader = new FrameReader((...parts) => read.push(parts));
        const bytes = Buffer.concat(frames.map((parts) => frame(...parts)));
        for (const piece of pieces(bytes, lengths)) reader.push(piece);
        expect(read).toEqual(
          frames.map(([type, channel, payload]) => [type, channel, Buffer.from(payload)]),
        );
      }),
    );
  });

  it("of any other bytes are a failure of the protocol, or incomplete", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        try {
          new FrameReader(() => {}).push(Buffer.from(bytes));
        } catch (error) {
          expect(error).toBeInstanceOf(BrokerFailure);
        }
      }),
    );
  });
});

describe("replies of Redis", () => {
  const line = fc.stringMatching(/^[ -~]{0,20}$/);
  const reply = fc.oneof(
    line.map((text) => [`+${text}\r\n`, { kind: "value", text }] as const),
    line.map((text) => [`-${text}\r\n`, { kind: "error", text }] as const),
    line.map((text) => [`$${text.length}\r\n${text}\r\n`, { kind: "value", text }] as const),
    fc.constant(["$-1\r\n", { kind: "nil" }] as const),
  );

  it("are the same in whatever pieces they arrive", () => {
    fc.assert(
      fc.property(fc.array(reply, { maxLength: 8 }), cuts, (replies, lengths) => {
        const read: RespReply[] = [];
        const reader = new RespReader((found) => read.push(found));
        const bytes = Buffer.from(replies.map(([text]) => text).join(""));
        for (const piece of pieces(bytes, lengths)) reader.push(piece);
        expect(read).toEqual(replies.map(([, found]) => found));
      }),
    );
  });

  it("of any other bytes are a failure of the protocol, or incomplete", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        try {
          new RespReader(() => {}).push(Buffer.from(bytes));
        } catch (error) {
          expect(error).toBeInstanceOf(BrokerFailure);
        }
      }),
    );
  });
});

describe("a command for Redis", () => {
  it("has the lengths of its arguments in bytes", () => {
    const command = respCommand(["XADD", "ü", Buffer.from([13, 10])]);
    expect(command.toString("latin1")).toBe("*3\r\n$4\r\nXADD\r\n$2\r\nÃ¼\r\n$2\r\n\r\n\r\n");
  });
});
