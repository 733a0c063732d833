/** Opening session: a connection that is being opened, and the calls that wait for it. */
import type { Cancel } from "@redrive/core";
import type { Opener } from "../connector.ts";
import { MAX_CALLS, type Session, type SessionUser } from "./session.ts";

export class OpeningSession<Kept extends Session> implements Opener {
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
