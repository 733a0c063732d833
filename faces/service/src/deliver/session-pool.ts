/**
 * Session pool: the open connections to gRPC servers or brokers. A call uses an open connection to its
 * server, waits for one that is being opened, or opens one. Connections are closed when they are idle or
 * old, and when the target policy no longer allows their address.
 */
import type { Cancel, Clock, Outcome } from "@redrive/core";
import type { DeadlineTimer, TimerEntry } from "../time/deadline-timer.ts";
import type { SessionAttemptCall } from "./attempt.ts";
import {
  type AttemptProgress,
  failureOutcome,
  onAbort,
  type ResultNote,
  resultOf,
} from "./attempt.ts";
import type { Connector, Opener, SocketEndpoint } from "./connector.ts";
import { type Failure, timeoutFailure } from "./failure.ts";
import type { BodyCapture, ResponseHead, SecretRequest } from "./response.ts";

/** A connection without calls is closed after this time, as for HTTP/1.1. */
const MAX_IDLE_MS = 30_000;

/** A connection gets no more calls after this time, so that calls follow a name that moves. */
const MAX_AGE_MS = 300_000;

/** Idle connections that are kept. */
const MAX_IDLE_SESSIONS = 256;

/** How often connections are checked. */
const SWEEP_MS = 1000;

export class SessionPool<Place extends SessionPlace, Kept extends Session>
  implements SessionOwner<Kept>
{
  readonly #clock: Clock;
  readonly #connector: Connector;
  readonly #openSession: OpenSession<Place, Kept>;

  // Mutable state.
  readonly #servers = new Map<string, Server<Kept>>();
  /** The longest idle first. */
  readonly #idle = new Map<Kept, number>();
  #cancelSweep: Cancel | undefined;
  #onEmpty: (() => void) | undefined;

  constructor(clock: Clock, connector: Connector, openSession: OpenSession<Place, Kept>) {
    this.#clock = clock;
    this.#connector = connector;
    this.#openSession = openSession;
  }

  /** Calls `onSession` or `onNoSession` once, unless the returned function is called before. */
  acquire(place: Place, user: SessionUser<Kept>): Cancel {
    const server = this.#serverOf(place);
    const session = this.#usable(server);
    if (session === undefined) return this.#wait(place, server, user);
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

  onIdle(session: Kept): void {
    this.#idle.delete(session);
    this.#idle.set(session, this.#clock.monotonicMs());
    const [longest] = this.#idle.keys();
    if (this.#idle.size > MAX_IDLE_SESSIONS) longest?.retire();
  }

  onClosed(session: Kept): void {
    this.#idle.delete(session);
    const { key } = session.place;
    const server = this.#servers.get(key);
    server?.sessions.delete(session);
    if (server !== undefined) this.#forgetUnused(key, server);
  }

  #usable({ sessions }: Server<Kept>): Kept | undefined {
    for (const session of [...sessions]) {
      const { place, address } = session;
      if (!this.#connector.mayReuse(place.endpoint, address)) session.retire();
      else if (session.hasRoom()) return session;
    }
    return undefined;
  }

  #wait(place: Place, server: Server<Kept>, user: SessionUser<Kept>): Cancel {
    const opening =
      server.openings.find((one) => one.fits(user)) ?? this.#open(place, server, user);
    opening.users.add(user);
    return () => opening.leave(user);
  }

  #open(place: Place, server: Server<Kept>, first: SessionUser<Kept>): OpeningSession<Kept> {
    const opening = new OpeningSession(first);
    server.openings.push(opening);
    const done = () => {
      server.openings.splice(server.openings.indexOf(opening), 1);
      opening.reportPhases();
    };
    this.#openSession(place, opening, this).then(
      (session) => {
        done();
        this.#opened(session, server, opening);
      },
      (error: Error) => {
        done();
        this.#forgetUnused(place.key, server);
        for (const user of opening.users) user.onNoSession(error);
      },
    );
    return opening;
  }

  #opened(session: Kept, server: Server<Kept>, opening: OpeningSession<Kept>): void {
    if (session.isRetired) {
      this.#forgetUnused(session.place.key, server);
      for (const user of opening.users) user.onNoSession(connectionClosed());
      return;
    }
    server.sessions.add(session);
    this.#armSweep();
    for (const user of opening.users) user.onSession(session);
    if (session.calls === 0 || this.#onEmpty !== undefined) session.retire();
  }

  #serverOf({ key }: Place): Server<Kept> {
    const known = this.#servers.get(key);
    if (known !== undefined) return known;
    const server: Server<Kept> = { sessions: new Set(), openings: [] };
    this.#servers.set(key, server);
    return server;
  }

  #forgetUnused(key: string, { sessions, openings }: Server<Kept>): void {
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

  #check(session: Kept, nowMs: number): void {
    const idleSinceMs = this.#idle.get(session) ?? nowMs;
    if (nowMs - idleSinceMs >= MAX_IDLE_MS || nowMs - session.openedMs >= MAX_AGE_MS) {
      session.retire();
    } else session.check(nowMs);
  }
}

/** The connections to one server. */
interface Server<Kept extends Session> {
  readonly sessions: Set<Kept>;
  readonly openings: OpeningSession<Kept>[];
}

// Session: the contract of a connection that several attempts share, of its users and of its pool.

/** Calls at once on one connection; the server may allow fewer. Servers of HTTP/2 often allow 100. */
export const MAX_CALLS = 100;

/** Where a connection leads, and as whom. */
export interface SessionPlace {
  /** The same for connections that can replace each other. It may contain a secret. */
  readonly key: string;
  readonly endpoint: SocketEndpoint;
}

/** A connection that several calls share. */
export interface Session {
  readonly place: SessionPlace;
  /** Kept: a socket forgets it when it is closed. */
  readonly address: string | undefined;
  /** On the clock's monotonic scale. */
  readonly openedMs: number;
  /** The calls that run. */
  readonly calls: number;
  readonly isRetired: boolean;
  /** Can it take another call? */
  hasRoom(): boolean;
  /** Gets no more calls, and is closed as soon as none runs. */
  retire(): void;
  /** Called once a second. */
  check(nowMs: number): void;
}

/** Told about every change of a session. */
export interface SessionOwner<Kept extends Session> {
  onIdle(session: Kept): void;
  /** The connection is closed. */
  onClosed(session: Kept): void;
}

/** A call that needs a connection. */
export interface SessionUser<Kept extends Session> extends Opener {
  /** The connection must be open by then; on the clock's monotonic scale. */
  readonly connectDeadlineMs: number;
  onSession(session: Kept): void;
  onNoSession(error: Error): void;
}

/** Opens a connection within the time of the opener. */
export type OpenSession<Place extends SessionPlace, Kept extends Session> = (
  place: Place,
  opener: Opener,
  owner: SessionOwner<Kept>,
) => Promise<Kept>;

/** The server closed the connection. With the code of Node, so that core knows its class. */
export function connectionClosed(): Error {
  return Object.assign(new Error("the connection was closed"), { code: "ECONNRESET" });
}

/** A connection that is being opened, and the calls that wait for it. */
class OpeningSession<Kept extends Session> implements Opener {
  readonly users = new Set<SessionUser<Kept>>();
  readonly #first: SessionUser<Kept>;
  readonly tenantId: string;
  readonly connectTimeoutMs: number;

  // Mutable state.
  dnsMs: number | null = null;
  connectMs: number | null = null;
  tlsMs: number | null = null;
  cancelOpening: Cancel | undefined;

  constructor(first: SessionUser<Kept>) {
    this.#first = first;
    this.tenantId = first.tenantId;
    this.connectTimeoutMs = first.connectTimeoutMs;
  }

  /** A call waits only for a connection that is open, or has failed, before its own deadline. */
  fits({ connectDeadlineMs }: SessionUser<Kept>): boolean {
    return this.users.size < MAX_CALLS && this.#first.connectDeadlineMs <= connectDeadlineMs;
  }

  leave(user: SessionUser<Kept>): void {
    this.users.delete(user);
    if (this.users.size === 0) this.cancelOpening?.();
  }

  /** Only the call that opened the connection has these phases. */
  reportPhases(): void {
    const { dnsMs, connectMs, tlsMs } = this;
    Object.assign(this.#first, { dnsMs, connectMs, tlsMs });
  }
}

// Session call: an attempt over a connection that it shares with others, from the wait for a
// connection to its result. It ends once: by what the target sends, by an error, by its deadline or
// by the caller's abort. Subclasses know the protocol.

export abstract class SessionCall<Kept extends Session>
  implements TimerEntry, SessionUser<Kept>, AttemptProgress
{
  protected readonly clock: Clock;
  protected readonly call: SessionAttemptCall;
  protected readonly startMs: number;
  readonly #deadlines: DeadlineTimer;
  readonly #stopListening: Cancel | undefined;
  readonly request: SecretRequest;
  readonly tenantId: string;
  readonly deadlineMs: number;
  readonly connectTimeoutMs: number;
  readonly connectDeadlineMs: number;

  // Mutable state: the progress of the call.
  slot = -1;
  dnsMs: number | null = null;
  connectMs: number | null = null;
  tlsMs: number | null = null;
  firstByteMs: number | null = null;
  cancelOpening: Cancel | undefined;
  head: ResponseHead | undefined;
  protected isOver = false;

  constructor(clock: Clock, deadlines: DeadlineTimer, call: SessionAttemptCall) {
    const { attemptTimeoutMs, connectTimeoutMs, signal } = call.options;
    this.clock = clock;
    this.#deadlines = deadlines;
    this.call = call;
    this.request = call.request;
    this.tenantId = call.request.tenantId ?? "";
    this.startMs = clock.monotonicMs();
    this.deadlineMs = this.startMs + attemptTimeoutMs;
    this.connectTimeoutMs = Math.min(connectTimeoutMs, attemptTimeoutMs);
    this.connectDeadlineMs = this.startMs + this.connectTimeoutMs;
    deadlines.add(this);
    this.#stopListening = signal && onAbort(signal, () => this.endEarly(undefined));
  }

  abstract readonly body: BodyCapture | undefined;
  abstract onSession(session: Kept): void;
  abstract onNoSession(error: Error): void;

  /** Ended by us, not by the target. No failure means an abort. */
  protected abstract endEarly(failure: Failure | undefined): void;

  /** Called when the deadline has passed. */
  expire(): void {
    this.endEarly(timeoutFailure(this.call.options.attemptTimeoutMs));
  }

  protected endFailed(failure: Failure, isSent: boolean): void {
    this.end(failureOutcome(failure, isSent), failure, false);
  }

  /** Settles the attempt. `isComplete`: the whole response was received. */
  protected end(outcome: Outcome, note: ResultNote | null, isComplete: boolean): void {
    this.isOver = true;
    this.#deadlines.remove(this);
    this.#stopListening?.();
    const durationMs = this.clock.monotonicMs() - this.startMs;
    this.call.settle(resultOf(this, outcome, note, isComplete, durationMs));
  }
}
