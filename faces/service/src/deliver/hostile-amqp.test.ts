/**
 * Tests of AMQP brokers that refuse messages or break the rules: the attempt ends as expected and in
 * time, at most one message was sent, and the next message to the same broker succeeds.
 */
import { afterAll, describe, expect, it } from "vitest";
import { BODY, frame } from "./amqp.ts";
import { type AmqpConduct, type AmqpPeer, amqpTestServer } from "./amqp-server.testing.ts";
import { AMPLE, bodyOf, brief, requestTo, testDeliverer } from "./deliverer.testing.ts";
import { flood } from "./hostile-server.testing.ts";

const deliverer = testDeliverer();
afterAll(() => deliverer.close());

/** For a broker that never ends the call. */
const SHORT = { attemptTimeoutMs: 600, connectTimeoutMs: 300 };

interface Row extends AmqpConduct {
  readonly does: string;
  /** In the format of `brief`, with the error message. */
  readonly expected: string;
  /** A timeout must end the attempt. */
  readonly isLate?: boolean;
  /** The message was not sent. Default: false. */
  readonly isUnsent?: boolean;
}

/** Does something else instead of one method of a correct server. */
const instead = (name: string, act: (peer: AmqpPeer, channel: number) => void) => ({
  onMethod: (peer: AmqpPeer, received: string, channel: number) => {
    if (received !== name) return false;
    act(peer, channel);
    return true;
  },
  isUnsent: true,
});

const INVALID = "error protocol the target's response is not valid AMQP 0-9-1";
const NO_CONNECTION = "error connect no connection to the target";
const RESET = "error reset the target closed the connection before its response was complete";
const LATE = "error timeout no complete response in time (600 ms)";

const ANSWERS: readonly Row[] = [
  {
    does: "returns the message",
    onMessage: (peer, { channel, tag }) => {
      peer.returned(channel, 312, "NO_ROUTE");
      peer.write(frame(BODY, channel, Buffer.from("the returned body")));
      peer.ack(channel, tag);
    },
    expected: "grpc 5 the broker returned the message, because no queue takes it (312 NO_ROUTE)",
  },
  {
    does: "does not accept the message",
    onMessage: (peer, { channel, tag }) => void peer.nack(channel, tag),
    expected: "grpc 8 the broker did not accept the message (basic.nack), as a full queue does",
  },
  ...(
    [
      [403, 7, "ACCESS_REFUSED"],
      [404, 5, "NOT_FOUND"],
      [406, 9, "PRECONDITION_FAILED"],
      [506, 8, "RESOURCE_ERROR"],
      [541, 14, "INTERNAL_ERROR"],
    ] as const
  ).map(([code, status, name]) => ({
    does: `closes the channel with ${code}`,
    onMessage: (peer: AmqpPeer, { channel }: { channel: number }) =>
      void peer.channelClose(channel, code, name),
    expected: `grpc ${status} the broker refused the message (${code} ${name})`,
  })),
  {
    does: "closes the channel with a code that does not exist",
    onMessage: (peer, { channel }) => void peer.channelClose(channel, 999, "WHAT"),
    expected: `${INVALID} (999)`,
  },
  {
    does: "refuses the password",
    ...instead("start-ok", (peer) => void peer.close(403, "ACCESS_REFUSED")),
    expected: "grpc 16 the broker refused the user or the password (403 ACCESS_REFUSED)",
  },
  {
    does: "offers no passwords",
    greet: (peer) => void peer.start("EXTERNAL"),
    expected: "grpc 16 the broker does not accept passwords (SASL mechanism PLAIN)",
    isUnsent: true,
  },
  {
    does: "has no such virtual host",
    ...instead("open", (peer) => void peer.close(530, "NOT_ALLOWED - vhost / not found")),
    expected: "grpc 7 the broker refused the message (530 NOT_ALLOWED)",
  },
  {
    does: "has too many connections",
    ...instead(
      "open",
      (peer) => void peer.close(530, "NOT_ALLOWED - connection limit (1) is reached"),
    ),
    expected: "grpc 8 the broker refused the message (530 NOT_ALLOWED)",
  },
  {
    does: "refuses the channel",
    ...instead("channel.open", (peer, channel) => void peer.channelClose(channel, 541, "no")),
    expected: "grpc 14 the broker refused the message (541 INTERNAL_ERROR)",
  },
];

const FAILURES: readonly Row[] = [
  {
    does: "closes the connection while it has the message",
    onMessage: (peer) => void peer.close(320, "CONNECTION_FORCED"),
    expected: `${RESET} (320 CONNECTION_FORCED)`,
  },
  {
    does: "complains about the frames of this side",
    onMessage: (peer) => void peer.close(501, "FRAME_ERROR"),
    expected: `${INVALID} (501)`,
  },
  {
    does: "opens the channel of the message again",
    onMessage: (peer, { channel }) => void peer.method(channel, 85, 11),
    expected: `${INVALID} (it opens a channel twice)`,
  },
  {
    does: "loses the connection while it has the message",
    onMessage: ({ socket }) => void socket.destroy(),
    expected: RESET,
  },
  {
    does: "loses the connection before the login",
    ...instead("start-ok", ({ socket }) => void socket.destroy()),
    expected: NO_CONNECTION,
  },
  {
    does: "is a web server",
    greet: (peer) => void peer.write(Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n")),
    expected: `${INVALID} (it sends something else)`,
    isUnsent: true,
  },
  {
    does: "speaks another version",
    greet: (peer) => void peer.write(Buffer.from("AMQP\0\x01\0\0", "latin1")).socket.end(),
    expected: `${INVALID} (it sends something else)`,
    isUnsent: true,
  },
  {
    does: "sends a method out of order",
    greet: (peer) => void peer.tune(),
    expected: `${INVALID} (a method is out of order)`,
    isUnsent: true,
  },
  {
    does: "sends a short method",
    greet: (peer) => void peer.method(0, 10, 10),
    expected: `${INVALID} (a frame is too short)`,
    isUnsent: true,
  },
  {
    does: "allows only tiny frames",
    tuned: { frameBytes: 100 },
    expected: `${INVALID} (its frames are too short)`,
    isUnsent: true,
  },
  {
    does: "confirms a message that it did not get",
    onMessage: (peer, { channel, tag }) => void peer.ack(channel, tag + 1),
    expected: `${INVALID} (it confirms an unknown message)`,
  },
  {
    does: "declares a frame of 4 GiB",
    onMessage: (peer) => void peer.write(Buffer.from([1, 0, 0, 255, 255, 255, 255])),
    expected: `${INVALID} (a frame is too long)`,
  },
  {
    does: "sends a frame that does not end",
    onMessage: (peer) => void peer.write(Buffer.from([8, 0, 0, 0, 0, 0, 0, 0])),
    expected: `${INVALID} (a frame does not end where it should)`,
  },
  {
    does: "sends a method that does not belong here",
    onMessage: (peer, { channel }) => void peer.method(channel, 60, 60),
    expected: `${INVALID} (it sends a method that does not belong here)`,
  },
  {
    does: "sends bodies for ever",
    onMessage: ({ socket }, { channel }) =>
      void flood(socket, frame(BODY, channel, Buffer.alloc(60_000))),
    expected: `${INVALID} (it sends more than its messages need)`,
  },
  {
    does: "sends garbage for ever before the login",
    greet: ({ socket }) => void flood(socket, Buffer.alloc(65_536, 0xff)),
    expected: `${INVALID} (it sends something else)`,
    isUnsent: true,
  },
  {
    does: "says nothing before the login",
    greet: () => {},
    expected: `${NO_CONNECTION} (UND_ERR_CONNECT_TIMEOUT)`,
    isLate: true,
    isUnsent: true,
  },
  {
    does: "never opens a channel",
    ...instead("confirm.select", () => {}),
    expected: LATE,
    isLate: true,
  },
  {
    does: "never confirms",
    onMessage: () => {},
    expected: LATE,
    isLate: true,
  },
];

describe("an AMQP broker that", () => {
  it.each([...ANSWERS, ...FAILURES])("$does", async (row) => {
    const { does: _, expected, isLate = false, isUnsent = false, ...conduct } = row;
    const server = await amqpTestServer(onceOnly(conduct));
    const request = requestTo(server.url(), { headers: {} });
    const result = await deliverer.deliver(request, isLate ? SHORT : AMPLE);
    // Whether Node reports the code of a lost connection depends on timing.
    const message = result.errorMessage?.replace(" (ECONNRESET)", "") ?? [];
    expect([brief(result), message].flat().join(" ")).toBe(expected);
    expect(server.messages.length).toBe(isUnsent ? 0 : 1);
    expect(result.durationMs).toBeLessThan(AMPLE.attemptTimeoutMs);
    const { outcome } = result;
    if (outcome.kind === "error") expect(outcome.sent).toBe(!isUnsent);

    const next = await deliverer.deliver(request, AMPLE);
    expect([brief(next), bodyOf(next)]).toEqual(["success 0", ""]);
    await server.close();
  });
});

/** The first connection or message is hostile; the others are not. */
function onceOnly({ greet, onMethod, onMessage, tuned }: AmqpConduct): AmqpConduct {
  let greeted = 0;
  let methods = 0;
  const isFirst = () => greeted <= 1;
  return {
    greet: (peer) => {
      greeted++;
      if (isFirst() && greet) greet(peer);
      else peer.start();
    },
    onMethod: (peer, name, channel) => {
      if (name === "start-ok" && tuned && isFirst()) {
        peer.tune(tuned);
        return true;
      }
      const isDone = methods === 0 && (onMethod?.(peer, name, channel) ?? false);
      if (isDone) methods++;
      return isDone;
    },
    onMessage: (peer, message, count) => {
      if (count === 1 && onMessage) onMessage(peer, message, count);
      else peer.ack(message.channel, message.tag);
    },
  };
}
