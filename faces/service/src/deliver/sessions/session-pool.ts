/**
 * Session pool: the open connections to gRPC servers or brokers. A call uses an open connection to its
 * server, waits for one that is being opened, or opens one. Connections are closed when they are idle or
 * old, and when the target policy no longer allows their address.
 */
import type { Cancel, Clock } from "@redrive/core";
import type { Connector } from "../connector.ts";
import { OpeningSession } from "./opening-session.ts";
import {
  connectionClosed,
  type OpenSession,
  type Session,
  type SessionOwner,
  type SessionPlace,
  type SessionUser,
} from "./session.ts";

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
