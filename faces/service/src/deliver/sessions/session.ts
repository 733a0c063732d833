/** Session: the contract of a connection that several attempts share, of its users and of its pool. */
import type { Opener, SocketEndpoint } from "../connector.ts";

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
