/**
 * Redis store: for a fleet of nodes with a high volume. Each partition of tasks is changed by scripts,
 * which a server runs one after another. Works with one server, with Sentinel and with a cluster.
 * `connection/redis-url.ts` documents the URL, and docs/decisions/0027 the keys.
 */
import { messageOf, RedriveError, systemClock } from "@redrive/core";
import type { HintListener, Store } from "../../model/store.ts";
import { timedStore } from "../../model/store-wrappers/timed-store.ts";
import type { MovableStore } from "../../model/transfer/transfer.ts";
import { type Link, openLink } from "./connection/link.ts";
import { Receiver } from "./connection/receiver.ts";
import { addressOf, parseRedisUrl, type RedisTarget } from "./connection/redis-url.ts";
import { checkSettings } from "./connection/settings.ts";
import { redisQuery } from "./read/redis-query.ts";
import { type Keys, keysOf, PARTITIONS } from "./rows/keys.ts";
import { CLOCK } from "./scripts/node-scripts.ts";
import { DestinationTable } from "./tables/destination-table.ts";
import { documentTable } from "./tables/document-table.ts";
import { dueTable } from "./tables/due-table.ts";
import { HintTable, lanesOf } from "./tables/hint-table.ts";
import { nodeTable } from "./tables/node-table.ts";
import { PolicyTable } from "./tables/policy-table.ts";
import { redisTransfer } from "./transfer/redis-transfer.ts";
import { committer } from "./write/commit.ts";
import { sweeper } from "./write/sweeper.ts";
import { unusedRows } from "./write/unused-rows.ts";

/**
 * Connects. Rejects with `INVALID_ARGUMENT` if the settings of a server could lose acknowledged tasks,
 * and with `STORE_UNAVAILABLE` if there is no connection.
 */
export async function redisStore(url: string): Promise<Store> {
  const target = parseRedisUrl(url);
  const link = await openLink(target).catch((error: unknown) => unavailable(target, error));
  try {
    await checkSettings(link, target);
  } catch (error) {
    link.close();
    if (error instanceof RedriveError) throw error;
    unavailable(target, error);
  }
  const keys = keysOf(target.prefix);
  const hints = new HintListeners(link, keys);
  await hints.start();
  return timedStore(systemClock, storeOf(link, keys, hints));
}

function unavailable(target: RedisTarget, cause: unknown): never {
  const message = `no connection to Redis at ${addressOf(target)}: ${messageOf(cause)}`;
  throw new RedriveError("STORE_UNAVAILABLE", message, { cause });
}

/** Who listens to the hints of all nodes. The connection for them is made in advance. */
class HintListeners {
  readonly #receiver: Receiver;
  readonly #listeners = new Set<HintListener>();

  constructor(link: Link, { channel }: Keys) {
    this.#receiver = new Receiver(link, channel, (message) => {
      const lanes = message === null ? null : lanesOf(message);
      for (const listener of this.#listeners) listener(lanes);
    });
  }

  start(): Promise<void> {
    return this.#receiver.start();
  }

  stop(): void {
    this.#receiver.stop();
  }

  add(listener: HintListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/**
 * Few, because a commit costs the server little more than its items. Without overlap, the server would
 * wait while the node prepares the next items, and the node while the server stores them.
 */
const OVERLAP_ITEMS = 16;

function storeOf(link: Link, keys: Keys, listeners: HintListeners): MovableStore {
  const destinations = new DestinationTable(link, keys);
  const policies = new PolicyTable(link, keys);
  const hints = new HintTable(link, keys);
  const documents = documentTable(link, keys);
  const publish = hints.publish.bind(hints);
  return {
    exclusive: false,
    overlapItems: OVERLAP_ITEMS,
    partitions: PARTITIONS,
    clock: async () => Number(await link.run(CLOCK, [keys.control], [])),
    commit: committer({ link, keys, destinations, policies, publish }),
    ...dueTable(link, keys),
    onHint: (listener) => listeners.add(listener),
    ...nodeTable({ link, keys, destinations, hints }),
    // Engine time follows the clock of the server.
    latestAt: async () => 0,
    ...policies.methods(),
    ...destinations.methods(),
    ...sweeper(link, keys),
    ...unusedRows({ link, keys, documents }),
    query: redisQuery({ link, keys, destinations }),
    documents,
    transfer: redisTransfer({ link, keys, destinations, documents }),
    async close() {
      listeners.stop();
      link.close();
    },
  };
}
