/**
 * Listener: sends wake-ups to other nodes with NOTIFY, and receives theirs on one connection of its own.
 * Each partition has a channel, so a node hears only of its own. Best effort: without the connection, or
 * behind a pooler that does not support LISTEN, a node finds due tasks by reading.
 */
import { type Cancel, type Clock, systemClock } from "@redrive/core";
import type { Client } from "pg";
import {
  type LaneDue,
  parseLanes,
  type WakeUp,
  type WakeUpListener,
  WakeUpListeners,
  type WakeUps,
} from "../../../model/lane-due.ts";
import type { Sql } from "./sql.ts";

/** A payload must be shorter than this many bytes. */
const MAX_PAYLOAD = 7900;
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 5000;

/** Messages of one statement. The rest follows in the next one. */
const MAX_MESSAGES = 256;

const MAX_WAITING = 4096;

/**
 * Its own transaction: a transaction that notifies holds a lock of the whole server while it commits,
 * so commits with wake-ups would wait for each other's fsync. This one has nothing to make durable.
 */
const NOTIFY = `SELECT set_config('synchronous_commit', 'off', true), pg_notify(channel, payload)
  FROM unnest($1::text[], $2::text[]) m (channel, payload)`;

/** The channel of a partition, after the name of the schema. The functions of the outbox use it too. */
export const PARTITION_CHANNEL = "_wake_";

export class Listener {
  readonly #sql: Sql;
  readonly #connect: () => Promise<Client>;
  readonly #clock: Clock;
  readonly #nodesChannel: string;
  readonly #listeners = new WakeUpListeners(() => this.#follow());
  #client: Client | undefined;
  #pauseMs = FIRST_PAUSE_MS;
  #cancel: Cancel | undefined;
  #isClosed = false;
  /** What the next NOTIFY sends. */
  readonly #waiting: Message[] = [];
  #isSending = false;

  constructor(sql: Sql, connect: () => Promise<Client>, clock: Clock = systemClock) {
    this.#sql = sql;
    this.#connect = connect;
    this.#clock = clock;
    this.#nodesChannel = `${sql.schema}_nodes`;
  }

  onWakeUp(listener: WakeUpListener): WakeUps {
    return this.#listeners.add(listener);
  }

  /** Connects, and again after each loss. Never rejects. */
  async start(): Promise<void> {
    if (this.#isClosed) return;
    try {
      const client = await this.#connect();
      client.on("error", () => {});
      client.on("end", () => this.#lose(client));
      client.on("notification", ({ channel, payload }) => this.#receive(channel, payload ?? ""));
      this.#client = client;
      await client.connect();
      await client.query(this.#listenText());
      this.#pauseMs = FIRST_PAUSE_MS;
    } catch {
      this.#lose(this.#client);
    }
  }

  #channelOf(partition: number): string {
    return `${this.#sql.schema}${PARTITION_CHANNEL}${partition}`;
  }

  #listenText(): string {
    const own = this.#listeners.partitions().map((partition) => this.#channelOf(partition));
    const listens = [this.#nodesChannel, ...own].map((channel) => `LISTEN ${channel}`);
    return ["UNLISTEN *", ...listens].join("; ");
  }

  /** What other nodes send before the server has done this is lost, and found by reading. */
  #follow(): void {
    const client = this.#client;
    client?.query(this.#listenText()).catch(() => this.#lose(client));
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
    if (this.#client === undefined) return;
    this.#listeners.tell("lost");
    this.#listeners.tell("nodes-changed");
  }

  #receive(channel: string, payload: string): void {
    this.#listeners.tell(wakeUpOf(channel === this.#nodesChannel, payload));
  }

  /** Tells the nodes that lease these partitions. */
  sendLanes(lanes: readonly LaneDue[]): void {
    for (const partition of new Set(lanes.map((lane) => lane.partition))) {
      const own = lanes.filter((lane) => lane.partition === partition);
      this.#send({ channel: this.#channelOf(partition), payload: payloadOf(own) });
    }
  }

  /** Tells all nodes that the nodes have changed. */
  sendNodesChanged(): void {
    this.#send({ channel: this.#nodesChannel, payload: "" });
  }

  /** While the server is slow, the oldest messages are dropped: their receivers read what is due. */
  #send(message: Message): void {
    this.#waiting.push(message);
    if (this.#waiting.length > MAX_WAITING) this.#waiting.shift();
    if (!this.#isSending) void this.#sendWaiting();
  }

  async #sendWaiting(): Promise<void> {
    this.#isSending = true;
    while (this.#waiting.length > 0 && !this.#isClosed) {
      const sent = this.#waiting.splice(0, MAX_MESSAGES);
      const params = [sent.map(({ channel }) => channel), sent.map(({ payload }) => payload)];
      await this.#sql.run(NOTIFY, params).catch(() => {});
    }
    this.#isSending = false;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel?.();
    await this.#client?.end().catch(() => {});
  }
}

interface Message {
  readonly channel: string;
  readonly payload: string;
}

/** An empty text is a wake-up for more lanes than a message can name. */
function wakeUpOf(isOfNodes: boolean, payload: string): WakeUp {
  if (isOfNodes) return payload === "" ? "nodes-changed" : "unreadable";
  return payload === "" ? "lost" : parseLanes(payload);
}

/** The text of a NOTIFY. Empty: the receivers read the store. */
export function payloadOf(lanes: readonly LaneDue[]): string {
  const json = JSON.stringify(lanes);
  return Buffer.byteLength(json) < MAX_PAYLOAD ? json : "";
}
