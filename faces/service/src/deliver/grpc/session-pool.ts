/**
 * Session pool: the open connections to gRPC servers. A call uses an open connection to its server, waits
 * for one that is being opened, or opens one. Connections are closed when they are idle or old, and when
 * the target policy no longer allows their address.
 */
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Cancel, Clock } from "@redrive/core";
import type { Connector, Opener, SocketEndpoint } from "../connector.ts";
import { NO_ALPN } from "../failure.ts";
import { GrpcSession, MAX_STREAMS, type SessionOwner } from "./session.ts";

/** A connection without calls is closed after this time, as for HTTP/1.1. */
const MAX_IDLE_MS = 30_000;

/** A connection gets no more calls after this time, so that calls follow a name that moves. */
const MAX_AGE_MS = 300_000;

/** Idle connections that are kept. */
const MAX_IDLE_SESSIONS = 256;

/** How often connections are checked. */
const SWEEP_MS = 1000;

/** A call that needs a connection. */
export interface SessionUser extends Opener {
  /** The connection must be open by then; on the clock's monotonic scale. */
  readonly connectDeadlineMs: number;
  onSession(session: GrpcSession): void;
  onNoSession(error: Error): void;
}

export class SessionPool implements SessionOwner {
  readonly #clock: Clock;
  readonly #connector: Connector;

  // Mutable state.
  readonly #servers = new Map<string, Server>();
  /** The longest idle first. */
  readonly #idle = new Map<GrpcSession, number>();
  #cancelSweep: Cancel | undefined;
  #onEmpty: (() => void) | undefined;

  constructor(clock: Clock, connector: Connector) {
    this.#clock = clock;
    this.#connector = connector;
  }

  /** Calls `onSession` or `onNoSession` once, unless the returned function is called before. */
  acquire(endpoint: SocketEndpoint, user: SessionUser): Cancel {
    const server = this.#serverOf(endpoint);
    const session = this.#usable(server);
    if (session === undefined) return this.#wait(endpoint, server, user);
    this.#idle.delete(session);
    user.onSession(session);
    // The user may have decided to send nothing.
    if (session.calls === 0 && !session.isRetired) this.onIdle(session);
    return () => {};
  }

  /** Closes idle connections, and the others when their last call ends. */
  close(): Promise<void> {
    const ended = new Promise<void>((resolve) => {
      this.#onEmpty = resolve;
    });
    for (const { sessions } of this.#servers.values()) {
      for (const session of [...sessions]) session.retire();
    }
    this.#endIfEmpty();
    return ended;
  }

  onIdle(session: GrpcSession): void {
    this.#idle.delete(session);
    this.#idle.set(session, this.#clock.monotonicMs());
    const [longest] = this.#idle.keys();
    if (this.#idle.size > MAX_IDLE_SESSIONS) longest?.retire();
  }

  onClosed(session: GrpcSession): void {
    this.#idle.delete(session);
    const key = keyOf(session.endpoint);
    const server = this.#servers.get(key);
    server?.sessions.delete(session);
    if (server !== undefined) this.#forgetUnused(key, server);
  }

  #usable({ sessions }: Server): GrpcSession | undefined {
    for (const session of [...sessions]) {
      const { endpoint, address } = session;
      if (!this.#connector.mayReuse(endpoint, address)) session.retire();
      else if (session.hasRoom()) return session;
    }
    return undefined;
  }

  #wait(endpoint: SocketEndpoint, server: Server, user: SessionUser): Cancel {
    const opening =
      server.openings.find((one) => one.fits(user)) ?? this.#open(endpoint, server, user);
    opening.users.add(user);
    return () => opening.leave(user);
  }

  #open(endpoint: SocketEndpoint, server: Server, first: SessionUser): OpeningSession {
    const opening = new OpeningSession(first);
    server.openings.push(opening);
    const done = () => {
      server.openings.splice(server.openings.indexOf(opening), 1);
    };
    this.#connector.open(endpoint, opening).then(
      (socket) => {
        done();
        this.#opened(socket, endpoint, server, opening);
      },
      (error: Error) => {
        done();
        this.#forgetUnused(keyOf(endpoint), server);
        for (const user of opening.users) user.onNoSession(error);
      },
    );
    return opening;
  }

  #opened(socket: Socket, endpoint: SocketEndpoint, server: Server, opening: OpeningSession): void {
    opening.reportPhases();
    if (endpoint.isTls && (socket as TLSSocket).alpnProtocol !== "h2") {
      socket.destroy();
      for (const user of opening.users) user.onNoSession(noHttp2());
      return;
    }
    const session = new GrpcSession(socket, endpoint, this.#clock.monotonicMs(), this);
    server.sessions.add(session);
    this.#armSweep();
    for (const user of opening.users) user.onSession(session);
    if (session.calls === 0 || this.#onEmpty !== undefined) session.retire();
  }

  #serverOf(endpoint: SocketEndpoint): Server {
    const key = keyOf(endpoint);
    const known = this.#servers.get(key);
    if (known !== undefined) return known;
    const server: Server = { sessions: new Set(), openings: [] };
    this.#servers.set(key, server);
    return server;
  }

  #forgetUnused(key: string, { sessions, openings }: Server): void {
    if (sessions.size === 0 && openings.length === 0) this.#servers.delete(key);
    this.#endIfEmpty();
  }

  #endIfEmpty(): void {
    if (this.#servers.size > 0) return;
    this.#cancelSweep?.();
    this.#cancelSweep = undefined;
    this.#onEmpty?.();
  }

  #armSweep(): void {
    this.#cancelSweep ??= this.#clock.alarm(SWEEP_MS, () => this.#sweep(), true);
  }

  #sweep(): void {
    this.#cancelSweep = undefined;
    const nowMs = this.#clock.monotonicMs();
    for (const { sessions } of [...this.#servers.values()]) {
      for (const session of [...sessions]) this.#check(session, nowMs);
    }
    if (this.#servers.size > 0) this.#armSweep();
  }

  #check(session: GrpcSession, nowMs: number): void {
    const idleSinceMs = this.#idle.get(session) ?? nowMs;
    if (nowMs - idleSinceMs >= MAX_IDLE_MS || nowMs - session.openedMs >= MAX_AGE_MS) {
      session.retire();
    } else session.endFlood();
  }
}

/** The connections to one server. */
interface Server {
  readonly sessions: Set<GrpcSession>;
  readonly openings: OpeningSession[];
}

/** A connection that is being opened, and the calls that wait for it. */
class OpeningSession implements Opener {
  readonly users = new Set<SessionUser>();
  readonly #first: SessionUser;
  readonly tenantId: string;
  readonly connectTimeoutMs: number;

  // Mutable state.
  dnsMs: number | null = null;
  connectMs: number | null = null;
  tlsMs: number | null = null;
  cancelOpening: Cancel | undefined;

  constructor(first: SessionUser) {
    this.#first = first;
    this.tenantId = first.tenantId;
    this.connectTimeoutMs = first.connectTimeoutMs;
  }

  /** A call waits only for a connection that is open, or has failed, before its own deadline. */
  fits({ connectDeadlineMs }: SessionUser): boolean {
    return this.users.size < MAX_STREAMS && this.#first.connectDeadlineMs <= connectDeadlineMs;
  }

  leave(user: SessionUser): void {
    this.users.delete(user);
    if (this.users.size === 0) this.cancelOpening?.();
  }

  /** Only the call that opened the connection has these phases. */
  reportPhases(): void {
    const { dnsMs, connectMs, tlsMs } = this;
    Object.assign(this.#first, { dnsMs, connectMs, tlsMs });
  }
}

function keyOf({ name, port, isTls }: SocketEndpoint): string {
  return `${isTls ? "grpcs" : "grpc"}://${name}:${port}`;
}

/** The target completed the handshake without the choice of a protocol. */
function noHttp2(): Error {
  return Object.assign(new Error("no HTTP/2"), { code: NO_ALPN });
}
