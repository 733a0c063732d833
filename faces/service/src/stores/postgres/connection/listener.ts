/**
 * Listener: tells other nodes about hints with NOTIFY, and hears about theirs on one connection of
 * its own. Hints are also stored, so this is best effort: without the connection, or behind a pooler
 * that does not support LISTEN, a node finds the hints in its next exchange.
 */
import { type Cancel, type Clock, systemClock } from "@redrive/core";
import type { Client } from "pg";
import type { LaneDue } from "../../../model/lane-due.ts";
import type { HintListener } from "../../../model/store.ts";
import type { Sql } from "./sql.ts";

/** A payload must be shorter than this many bytes. */
const MAX_PAYLOAD = 7900;
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 5000;

/**
 * Its own transaction: a transaction that notifies holds a lock of the whole server while it commits,
 * so commits with hints would wait for each other's fsync. This one has nothing to make durable.
 */
const NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)";

export class Listener {
  readonly #sql: Sql;
  readonly #connect: () => Promise<Client>;
  readonly #clock: Clock;
  readonly #channel: string;
  readonly #listeners = new Set<HintListener>();
  #client: Client | undefined;
  #pauseMs = FIRST_PAUSE_MS;
  #cancel: Cancel | undefined;
  #isClosed = false;
  /** What is sent after the running NOTIFY. Null: that hints or nodes have changed. */
  #waiting: readonly LaneDue[] | null | undefined;
  #isSending = false;

  constructor(sql: Sql, connect: () => Promise<Client>, clock: Clock = systemClock) {
    this.#sql = sql;
    this.#connect = connect;
    this.#clock = clock;
    this.#channel = `${sql.schema}_hints`;
  }

  onHint(listener: HintListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Connects, and again after each loss. Never rejects. */
  async start(): Promise<void> {
    if (this.#isClosed) return;
    try {
      const client = await this.#connect();
      client.on("error", () => {});
      client.on("end", () => this.#lose(client));
      client.on("notification", ({ payload }) => this.#hear(payload ?? ""));
      this.#client = client;
      await client.connect();
      await client.query(`LISTEN ${this.#channel}`);
      this.#pauseMs = FIRST_PAUSE_MS;
    } catch {
      this.#lose(this.#client);
    }
  }

  #lose(client: Client | undefined): void {
    if (this.#isClosed || client !== this.#client) return;
    this.#client = undefined;
    void client?.end().catch(() => {});
    this.#cancel?.();
    this.#cancel = this.#clock.alarm(this.#pauseMs, () => void this.#restart(), true);
    this.#pauseMs = Math.min(MAX_PAUSE_MS, 2 * this.#pauseMs);
  }

  /** Notifications were lost meanwhile. */
  async #restart(): Promise<void> {
    await this.start();
    if (this.#client !== undefined) this.#tell(null);
  }

  #hear(payload: string): void {
    this.#tell(payload === "" ? null : (JSON.parse(payload) as readonly LaneDue[]));
  }

  #tell(lanes: readonly LaneDue[] | null): void {
    for (const listener of this.#listeners) listener(lanes);
  }

  /** Tells all nodes. Several calls during one NOTIFY share the next one. */
  send(lanes: readonly LaneDue[] | null): void {
    const waiting = this.#waiting;
    this.#waiting = lanes === null || waiting === null ? null : [...(waiting ?? []), ...lanes];
    if (!this.#isSending) void this.#sendWaiting();
  }

  async #sendWaiting(): Promise<void> {
    this.#isSending = true;
    while (this.#waiting !== undefined && !this.#isClosed) {
      const payload = payloadOf(this.#waiting);
      this.#waiting = undefined;
      await this.#sql.run(NOTIFY, [this.#channel, payload]).catch(() => {});
    }
    this.#isSending = false;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel?.();
    await this.#client?.end().catch(() => {});
  }
}

/** The text of a NOTIFY. Empty: the receivers ask the store. */
export function payloadOf(lanes: readonly LaneDue[] | null): string {
  if (lanes === null) return "";
  const json = JSON.stringify(lanes);
  return Buffer.byteLength(json) < MAX_PAYLOAD ? json : "";
}
