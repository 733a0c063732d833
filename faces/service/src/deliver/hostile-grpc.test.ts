/**
 * Tests of gRPC targets that break the rules: the attempt ends as expected and in time, one call was sent,
 * and the next call to the same server succeeds.
 */
import { afterAll, describe, expect, it } from "vitest";
import { AMPLE, bodyOf, brief, requestTo, testDeliverer } from "./deliverer.testing.ts";
import { type Conduct, framed, hostileHttp2, OK, Peer } from "./hostile-http2.testing.ts";
import { flood } from "./hostile-server.testing.ts";

const deliverer = testDeliverer();
afterAll(() => deliverer.close());

/** For a target that never ends the call. */
const SHORT = { attemptTimeoutMs: 400, connectTimeoutMs: 400 };

interface Row {
  readonly does: string;
  readonly conduct: Conduct;
  /** In the format of `brief`, with the error message. */
  readonly expected: string;
  /** The deadline must end the attempt. */
  readonly isLate?: boolean;
  /** No byte counts as sent, so that also a task that is not idempotent is repeated. */
  readonly isUnprocessed?: boolean;
}

const pairs = (count: number, size: number) =>
  Array.from({ length: count }, (_, n) => [`x-${n}`, "y".repeat(size)] as const);

const ok = (peer: Peer, stream: number) => peer.headers(stream, OK);

/** The same frame again and again, as fast as the client reads. */
function floodWith(peer: Peer, write: (peer: Peer) => void): void {
  const chunks: Buffer[] = [];
  const recorder = new Peer({ write: (bytes: Buffer) => chunks.push(bytes) } as never);
  for (let n = 0; n < 500; n++) write(recorder);
  flood(peer.socket, Buffer.concat(chunks));
}

const INVALID = "the target's response is not valid gRPC";
const RESET = "the target closed the connection before its response was complete";
const REFUSED = "the target refused the call before it processed it";

const ROWS: readonly Row[] = [
  {
    does: "resets the call",
    conduct: (peer, stream) => peer.reset(stream, 2),
    expected: `error reset ${RESET} (INTERNAL_ERROR)`,
  },
  {
    does: "cancels the call",
    conduct: (peer, stream) => peer.reset(stream, 8),
    expected: `error reset ${RESET}`,
  },
  {
    does: "refuses the call",
    conduct: (peer, stream) => peer.reset(stream, 7),
    expected: `error reset ${REFUSED}`,
    isUnprocessed: true,
  },
  {
    does: "resets after its headers",
    conduct: (peer, stream) => ok(peer, stream).reset(stream, 2),
    expected: `error reset ${RESET} (INTERNAL_ERROR)`,
  },
  {
    does: "resets in the middle of a message",
    conduct: (peer, stream) =>
      ok(peer, stream).data(stream, framed("hello").subarray(0, 7)).reset(stream, 8),
    expected: `error reset truncated ${RESET}`,
  },
  {
    does: "goes away before it processes the call",
    conduct: (peer) => peer.goaway(0, 0),
    expected: `error reset ${REFUSED}`,
    isUnprocessed: true,
  },
  {
    does: "goes away with an error before it processes the call",
    conduct: (peer) => peer.goaway(0, 11),
    expected: `error reset ${REFUSED}`,
    isUnprocessed: true,
  },
  {
    does: "goes away with an error while it processes the call",
    conduct: (peer, stream) => peer.goaway(stream, 2),
    expected: `error reset ${RESET} (INTERNAL_ERROR)`,
  },
  {
    does: "goes away and completes the call",
    conduct: (peer, stream) => peer.goaway(stream, 0).respond(stream, 14),
    expected: "grpc 14",
  },
  {
    does: "closes the connection",
    conduct: ({ socket }) => socket.destroy(),
    expected: `error reset ${RESET}`,
  },
  {
    does: "resets the connection",
    conduct: ({ socket }) => socket.resetAndDestroy(),
    expected: `error reset ${RESET}`,
  },
  {
    does: "ends the response without trailers",
    conduct: (peer, stream) => ok(peer, stream).data(stream, framed("x"), true),
    expected: `error protocol truncated ${INVALID}: it has no grpc-status`,
  },
  {
    does: "ends the response with its headers",
    conduct: (peer, stream) => peer.headers(stream, OK, true),
    expected: `error protocol ${INVALID}: it has no grpc-status`,
  },
  {
    does: "responds with a page",
    conduct: (peer, stream) =>
      peer
        .headers(stream, [
          [":status", "200"],
          ["content-type", "text/html"],
        ])
        .data(stream, Buffer.from("<html>"), true),
    expected: `error protocol truncated ${INVALID}: its content type is not gRPC`,
  },
  {
    does: "responds with an HTTP status and no code",
    conduct: (peer, stream) => peer.headers(stream, [[":status", "503"]], true),
    expected: "grpc 14 the target responded with HTTP status 503 and no grpc-status",
  },
  {
    does: "responds with an HTTP status and never ends",
    conduct: (peer, stream) => peer.headers(stream, [[":status", "404"]]),
    expected: "grpc 12 the target responded with HTTP status 404 and no grpc-status",
    isLate: true,
  },
  {
    does: "puts the code into its headers",
    conduct: (peer, stream) => peer.headers(stream, [...OK, ["grpc-status", "5"]], true),
    expected: "grpc 5",
  },
  {
    does: "sends a code that does not exist",
    conduct: (peer, stream) => peer.respond(stream, 99),
    expected: "grpc 2",
  },
  {
    does: "sends two codes",
    conduct: (peer, stream) =>
      ok(peer, stream).headers(
        stream,
        [
          ["grpc-status", "0"],
          ["grpc-status", "14"],
        ],
        true,
      ),
    expected: "grpc 2",
  },
  {
    does: "declares a longer message than it sends",
    conduct: (peer, stream) =>
      ok(peer, stream)
        .data(stream, Buffer.from([0, 0, 0, 0, 9, 1]))
        .headers(stream, [["grpc-status", "0"]], true),
    expected: "success 0 truncated",
  },
  {
    does: "declares a message of 4 GiB",
    conduct: (peer, stream) => ok(peer, stream).data(stream, Buffer.from([0, 255, 255, 255, 255])),
    expected: "grpc 8 truncated the target's response is longer than 4 MiB",
  },
  {
    does: "sends data for ever",
    conduct: (peer, stream) => {
      ok(peer, stream).data(stream, Buffer.from([0, 0, 0x20, 0, 0]));
      floodWith(peer, (frames) => frames.data(stream, Buffer.alloc(16_384)));
    },
    expected: "grpc 8 truncated the target's response is longer than 4 MiB",
  },
  {
    does: "sends large headers",
    conduct: (peer, stream) => peer.headers(stream, [...OK, ...pairs(12, 1600)]),
    expected: "error protocol the target's response is not valid HTTP/2 (its headers are too long)",
  },
  {
    does: "sends many headers",
    conduct: (peer, stream) => peer.headers(stream, [...OK, ...pairs(400, 1)]),
    expected: "error protocol the target's response is not valid HTTP/2 (ENHANCE_YOUR_CALM)",
  },
  {
    does: "sends large trailers",
    conduct: (peer, stream) =>
      ok(peer, stream).headers(stream, [["grpc-status", "0"], ...pairs(12, 1600)], true),
    expected: "error protocol the target's response is not valid HTTP/2 (its headers are too long)",
  },
  {
    does: "floods with pings",
    conduct: (peer) => floodWith(peer, (frames) => frames.ping()),
    expected: "error protocol the target's response is not valid HTTP/2",
  },
  {
    does: "floods with settings",
    conduct: (peer) => floodWith(peer, (frames) => frames.settings()),
    expected: "error protocol the target's response is not valid HTTP/2",
  },
  {
    does: "floods with early hints",
    conduct: (peer, stream) =>
      floodWith(peer, (frames) => frames.headers(stream, [[":status", "103"]])),
    expected:
      "error protocol the target's response is not valid HTTP/2 (too many interim responses)",
  },
  {
    does: "pushes a response",
    conduct: (peer, stream) => peer.push(stream),
    expected: "error protocol the target's response is not valid HTTP/2",
  },
  {
    does: "sends a frame of the wrong kind",
    conduct: (peer) => peer.frame(0, 0, 0, Buffer.from("x")),
    expected: "error timeout no complete response in time (400 ms)",
    isLate: true,
  },
  {
    does: "never responds",
    conduct: () => {},
    expected: "error timeout no complete response in time (400 ms)",
    isLate: true,
  },
];

describe("a gRPC target that", () => {
  it.each(ROWS)("$does", async ({ conduct, expected, isLate = false, isUnprocessed = false }) => {
    const server = await hostileHttp2((peer, stream, call) => {
      if (call === 1) conduct(peer, stream, call);
      else peer.respond(stream);
    });
    const request = requestTo(server.url, { headers: {} });
    const result = await deliverer.deliver(request, isLate ? SHORT : AMPLE);
    // Whether Node reports the code of a reset connection depends on timing.
    const message = result.errorMessage?.replace(" (ECONNRESET)", "") ?? [];
    expect([brief(result), message].flat().join(" ")).toBe(expected);
    expect(server.calls()).toBe(1);
    expect(result.durationMs).toBeLessThan(AMPLE.attemptTimeoutMs);
    const { outcome } = result;
    if (outcome.kind === "error") expect(outcome.sent).toBe(!isUnprocessed);

    const next = await deliverer.deliver(request, AMPLE);
    expect([brief(next), bodyOf(next)]).toEqual(["success 0", "honest"]);
    await server.close();
  });
});
