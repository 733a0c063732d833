/**
 * Session: one connection of HTTP/2 to a gRPC server, shared by the calls of several tasks. It is
 * retired when it must get no more calls: the target or this side ended it, or one of its calls did not
 * end by itself. A retired session is closed when its last call ends.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type OutgoingHttpHeaders,
} from "node:http2";
import type { Socket } from "node:net";
import {
  MAX_CALLS,
  type Session,
  type SessionOwner,
  type SessionPlace,
} from "../sessions/session.ts";
import { MAX_RESPONSE_BYTES } from "./message.ts";

/** Bytes of headers or trailers of one response, as for HTTP/1.1. */
export const MAX_HEADER_BYTES = 16_384;

/** The bytes that a target may send: these at any time, and those of a full response per running call. */
const FREE_BYTES = 65_536;
const BYTES_PER_CALL = MAX_RESPONSE_BYTES + 4 * MAX_HEADER_BYTES;

const OPTIONS = {
  maxHeaderListPairs: 256,
  maxSettings: 32,
  peerMaxConcurrentStreams: MAX_CALLS,
  settings: { enablePush: false, maxHeaderListSize: MAX_HEADER_BYTES },
};

export class GrpcSession implements Session {
  readonly place: SessionPlace;
  readonly #socket: Socket;
  readonly #http2: ClientHttp2Session;
  readonly #owner: SessionOwner<GrpcSession>;
  readonly address: string | undefined;
  readonly openedMs: number;

  // Mutable state.
  calls = 0;
  /** The number of received bytes at which the connection is closed. */
  #maxReceived = FREE_BYTES;
  isRetired = false;
  hasSpokenHttp2 = false;
  /** Calls with a larger id were not processed. */
  #lastStreamId = Number.POSITIVE_INFINITY;

  constructor(
    socket: Socket,
    place: SessionPlace,
    openedMs: number,
    owner: SessionOwner<GrpcSession>,
  ) {
    this.place = place;
    this.openedMs = openedMs;
    this.#socket = socket;
    this.#owner = owner;
    this.address = socket.remoteAddress;
    const scheme = place.endpoint.isTls ? "https" : "http";
    this.#http2 = connect(`${scheme}://target`, { ...OPTIONS, createConnection: () => socket });
    this.#listen();
  }

  #listen(): void {
    const http2 = this.#http2;
    // Every call gets the error too.
    http2.on("error", () => this.retire());
    http2.on("goaway", (_code, lastStreamId) => {
      this.#lastStreamId = lastStreamId;
      this.retire();
    });
    http2.on("close", () => this.#onClose());
    http2.on("remoteSettings", () => {
      this.hasSpokenHttp2 = true;
      this.check();
    });
    http2.on("ping", () => this.check());
  }

  /** The calls that fit. A target that allows none gets one call, which ends at its deadline. */
  hasRoom(): boolean {
    const { closed, destroyed } = this.#http2;
    if (this.isRetired || closed || destroyed) return false;
    const allowed = this.#http2.remoteSettings?.maxConcurrentStreams ?? MAX_CALLS;
    return this.calls < Math.max(1, Math.min(allowed, MAX_CALLS));
  }

  /** Starts a call; throws if that is not possible. Call `release` when the call has ended. */
  request(headers: OutgoingHttpHeaders): ClientHttp2Stream {
    const stream = this.#http2.request(headers, { endStream: false });
    this.calls++;
    this.#allow();
    this.#http2.ref();
    return stream;
  }

  release(): void {
    this.calls--;
    this.#allow();
    if (this.calls > 0) return;
    if (this.isRetired) {
      this.destroy();
      return;
    }
    // An idle connection does not keep the process alive.
    this.#http2.unref();
    this.#owner.onIdle(this);
  }

  isUnprocessed(streamId: number): boolean {
    return streamId > this.#lastStreamId;
  }

  retire(): void {
    this.isRetired = true;
    if (this.calls === 0) this.destroy();
  }

  /** Closes the connection of a target that sends more than its calls can need. */
  check(): void {
    if (this.#socket.bytesRead > this.#maxReceived) this.destroy();
  }

  #allow(): void {
    this.#maxReceived = this.#socket.bytesRead + FREE_BYTES + this.calls * BYTES_PER_CALL;
  }

  /** Closes the connection now; its calls fail. */
  destroy(): void {
    this.isRetired = true;
    this.#http2.destroy();
  }

  #onClose(): void {
    this.isRetired = true;
    this.#socket.destroy();
    this.#owner.onClosed(this);
  }
}
