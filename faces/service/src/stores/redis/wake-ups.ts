/**
 * Wake-ups: messages by which a node tells the node that leases a partition that a task waits there, and all
 * nodes that the nodes have changed. Each partition has a channel. Best effort: a node reads what is due.
 */

import { type Cancel, systemClock } from "@redrive/core";
import type { Redis } from "ioredis";
import {
  type WakeUps as Following,
  type LaneDue,
  readLanes,
  type WakeUp,
  type WakeUpListener,
  WakeUpListeners,
} from "../../model/lane-due.ts";
import { LANES } from "../../model/task.ts";
import { type Link, retryDelayMs } from "./connection/link.ts";
import { pack, type Unpacked, unpackList } from "./message-pack.ts";
import type { Keys } from "./rows.ts";

export class WakeUps {
  readonly #link: Link;
  readonly #keys: Keys;
  readonly #receiver: Receiver;
  readonly #listeners = new WakeUpListeners(() => this.#follow());

  constructor(link: Link, keys: Keys) {
    this.#link = link;
    this.#keys = keys;
    this.#receiver = new Receiver(link, (channel, message) => this.#receive(channel, message));
    this.#follow();
  }

  /** The connection is made in advance. */
  start(): Promise<void> {
    return this.#receiver.start();
  }

  stop(): void {
    this.#receiver.stop();
  }

  add(listener: WakeUpListener): Following {
    return this.#listeners.add(listener);
  }

  #follow(): void {
    const own = this.#listeners.partitions().map((partition) => this.#keys.channelOf(partition));
    this.#receiver.subscribe([this.#keys.nodesChannel, ...own]);
  }

  /** Null: messages may have been lost. */
  #receive(channel: string, message: Buffer | null): void {
    if (message === null) {
      this.#listeners.tell("lost");
      this.#listeners.tell("nodes-changed");
    } else if (channel === this.#keys.nodesChannel) {
      this.#listeners.tell(message.length === 0 ? "nodes-changed" : "unreadable");
    } else this.#listeners.tell(lanesOf(message));
  }

  /** Tells the nodes that lease these partitions. */
  sendLanes(lanes: readonly LaneDue[]): void {
    for (const partition of new Set(lanes.map((lane) => lane.partition))) {
      const items = lanes
        .filter((lane) => lane.partition === partition)
        .map((one) => [
          one.tenantId,
          one.destination,
          LANES.indexOf(one.lane),
          one.partition,
          one.dueAt,
        ]);
      this.#publish(this.#keys.channelOf(partition), pack([items]));
    }
  }

  /** Tells all nodes that the nodes have changed. */
  sendNodesChanged(): void {
    this.#publish(this.#keys.nodesChannel, Buffer.alloc(0));
  }

  #publish(channel: string, message: Buffer): void {
    this.#link.publish(channel, message).catch(() => {});
  }
}

function lanesOf(message: Buffer): WakeUp {
  try {
    const [items] = unpackList(message) as readonly [readonly (readonly Unpacked[])[]];
    const lanes = items.map(([tenantId, destination, lane, partition, dueAt]) => ({
      ...{ tenantId, destination, partition, dueAt },
      lane: LANES[lane as number],
    }));
    return readLanes(lanes);
  } catch {
    return "unreadable";
  }
}

/** A lane is named `tenant\ndestination\nnumber`. */
export function laneOf(name: string): Pick<LaneDue, "tenantId" | "destination" | "lane"> {
  const [tenantId = "", destination = "", lane] = name.split("\n");
  return { tenantId, destination, lane: LANES[Number(lane)] ?? "first" };
}

// Receiver: receives the messages of channels for as long as someone listens. A lost connection is
// replaced by a new one, and then the listener gets null: messages may have been lost.

type Listener = (channel: string, message: Buffer | null) => void;

class Receiver {
  readonly #link: Link;
  readonly #listener: Listener;
  #channels: readonly string[] = [];
  #client: Redis | undefined;
  #cancelRetry: Cancel | undefined;
  #failures = 0;
  #isStarted = false;

  constructor(link: Link, listener: Listener) {
    this.#link = link;
    this.#listener = listener;
  }

  /** The channels to receive from now on. */
  subscribe(channels: readonly string[]): void {
    const before = this.#channels;
    this.#channels = channels;
    const client = this.#client;
    if (client?.status !== "ready") return;
    const added = channels.filter((channel) => !before.includes(channel));
    const removed = before.filter((channel) => !channels.includes(channel));
    // A connection that fails is replaced, and the new one subscribes to all.
    if (added.length > 0) client.subscribe(...added).catch(() => client.disconnect());
    if (removed.length > 0) client.unsubscribe(...removed).catch(() => client.disconnect());
  }

  /** Resolves when messages arrive, or when the first try has failed. */
  async start(): Promise<void> {
    if (this.#isStarted) return;
    this.#isStarted = true;
    await this.#connect();
  }

  stop(): void {
    this.#isStarted = false;
    this.#cancelRetry?.();
    this.#client?.disconnect();
  }

  async #connect(): Promise<void> {
    const client = this.#link.openReceiver();
    this.#client = client;
    client.on("error", () => {});
    client.on("end", () => this.#retry(client));
    client.on("messageBuffer", (channel: Buffer, message: Buffer) =>
      this.#listener(channel.toString(), message),
    );
    try {
      await client.connect();
      await client.subscribe(...this.#channels);
      if (this.#failures > 0) this.#listener("", null);
      this.#failures = 0;
    } catch {
      client.disconnect();
    }
  }

  #retry(client: Redis): void {
    if (!this.#isStarted || this.#client !== client) return;
    this.#failures++;
    const connect = () => void this.#connect();
    this.#cancelRetry = systemClock.alarm(retryDelayMs(this.#failures), connect, true);
  }
}
