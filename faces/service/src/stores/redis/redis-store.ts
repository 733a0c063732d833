/**
 * Redis store: for a fleet of nodes with a high volume. Each partition of tasks is changed by scripts,
 * which a server runs one after another. Works with one server, with Sentinel and with a cluster.
 * `connection/redis-url.ts` documents the URL, and docs/decisions/0027 the keys.
 */
import { messageOf, quote, RedriveError, systemClock } from "@redrive/core";
import { guardedStore, limitOf } from "../../model/guarded-store.ts";
import type { Store } from "../../model/store.ts";
import type { MovableStore } from "../../model/transfer.ts";
import { committer } from "./commit.ts";
import { type Link, openLink } from "./connection/link.ts";
import { addressOf, parseRedisUrl, type RedisTarget } from "./connection/redis-url.ts";
import { checkSettings } from "./connection/settings.ts";
import { DestinationTable } from "./destination-table.ts";
import { documentTable } from "./document-table.ts";
import { dueTable } from "./due-table.ts";
import { nodeTable } from "./node-table.ts";
import { PolicyTable } from "./policy-table.ts";
import { redisQuery } from "./redis-query.ts";
import { redisTransfer } from "./redis-transfer.ts";
import { type Keys, keysOf, LAYOUT, PARTITIONS } from "./rows.ts";
import { CLOCK, LAYOUT_OF_STORE } from "./scripts/node-scripts.ts";
import { sweeper } from "./sweeper.ts";
import { unusedRows } from "./unused-rows.ts";
import { WakeUps } from "./wake-ups.ts";

/**
 * Connects. Rejects with `INVALID_ARGUMENT` if the settings of a server could lose acknowledged tasks,
 * and with `STORE_UNAVAILABLE` if there is no connection.
 */
export async function redisStore(url: string): Promise<Store> {
  const target = parseRedisUrl(url);
  const link = await openLink(target).catch((error: unknown) => unavailable(target, error));
  try {
    await checkSettings(link, target);
    await checkLayout(link, target);
  } catch (error) {
    link.close();
    if (error instanceof RedriveError) throw error;
    unavailable(target, error);
  }
  const keys = keysOf(target.prefix);
  const wakeUps = new WakeUps(link, keys);
  await wakeUps.start();
  const store = storeOf(link, keys, wakeUps);
  return guardedStore(store, limitOf(systemClock, store));
}

async function checkLayout(link: Link, { prefix }: RedisTarget): Promise<void> {
  const found = Number(await link.run(LAYOUT_OF_STORE, [keysOf(prefix).control], [String(LAYOUT)]));
  if (found === LAYOUT) return;
  const text =
    found < LAYOUT
      ? `an older Redrive wrote the Redis store ${quote(prefix)} (layout ${found}, this version knows ${LAYOUT}): run redrive export with that version, and redrive import with this one`
      : `a newer Redrive wrote the Redis store ${quote(prefix)} (layout ${found}, this version knows ${LAYOUT}): upgrade this one`;
  throw new RedriveError("INVALID_ARGUMENT", text);
}

function unavailable(target: RedisTarget, cause: unknown): never {
  const message = `no connection to Redis at ${addressOf(target)}: ${messageOf(cause)}`;
  throw new RedriveError("STORE_UNAVAILABLE", message, { cause });
}

/**
 * Few, because a commit costs the server little more than its items. Without overlap, the server would
 * wait while the node prepares the next items, and the node while the server stores them.
 */
const OVERLAP_ITEMS = 16;

function storeOf(link: Link, keys: Keys, wakeUps: WakeUps): MovableStore {
  const destinations = new DestinationTable(link, keys);
  const policies = new PolicyTable(link, keys);
  const documents = documentTable(link, keys);
  return {
    exclusive: false,
    overlapItems: OVERLAP_ITEMS,
    partitions: PARTITIONS,
    clock: async () => Number(await link.run(CLOCK, [keys.control], [])),
    commit: committer({ link, keys, destinations, policies, wakeUps }),
    ...dueTable(link, keys),
    onWakeUp: (listener) => wakeUps.add(listener),
    ...nodeTable({ link, keys, destinations, wakeUps }),
    // Engine time follows the clock of the server.
    latestAt: async () => 0,
    ...policies.methods(),
    ...destinations.methods(),
    ...sweeper(link, keys),
    ...unusedRows({ link, keys, documents, destinations }),
    query: redisQuery({ link, keys, destinations }),
    documents,
    transfer: redisTransfer({ link, keys, destinations, documents }),
    async close() {
      wakeUps.stop();
      link.close();
    },
  };
}
