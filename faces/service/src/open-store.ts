/**
 * Open store: opens the store that a text names, or the shards of a list of texts. The scheme of a text
 * chooses the kind. A driver that a store needs is loaded when the store is opened.
 */
import type { Clock } from "@redrive/core";
import { serviceError } from "./model/errors.ts";
import type { Store } from "./model/store.ts";
import { splitStores, storeName } from "./store-name.ts";
import { memoryStore } from "./stores/memory/memory-store.ts";
import { isPostgresUrl, readAddress } from "./stores/postgres/connection/address.ts";
import { postgresStore } from "./stores/postgres/postgres-store.ts";
import { isRedisUrl, parseRedisUrl } from "./stores/redis/connection/redis-url.ts";
import { redisStore } from "./stores/redis/redis-store.ts";
import { MAX_SHARDS, type TenantShards } from "./stores/sharded/shard-layout.ts";
import { shardedStore } from "./stores/sharded/sharded-store.ts";
import { assertLayout, assertUnsharded } from "./stores/sharded/stored-layout.ts";
import { sqliteStore } from "./stores/sqlite/sqlite-store.ts";

interface StoreKind {
  readonly matches: (text: string) => boolean;
  /** Throws `INVALID_ARGUMENT` for a text that names no store of this kind. Default: all do. */
  readonly check?: (text: string) => void;
  readonly open: (text: string) => Store | Promise<Store>;
  /** Several of them may be the shards of one store. */
  readonly isServer?: boolean;
}

const KINDS: readonly StoreKind[] = [
  { matches: (text) => text === "memory:", open: () => memoryStore() },
  {
    matches: (text) => /^sqlite:./su.test(text),
    open: (text) => sqliteStore(text.slice("sqlite:".length), { lowLatency: true }),
  },
  {
    matches: isPostgresUrl,
    check: readAddress,
    open: (text) => postgresStore(text),
    isServer: true,
  },
  { matches: isRedisUrl, check: parseRedisUrl, open: redisStore, isServer: true },
];

/** What a store is called in messages. */
export const STORE_FORMS = "sqlite:PATH, postgres://..., redis://... or memory:";

/** The stores that a text names: one, or the shards of several servers, separated by commas. */
export function storeTexts(text: string): readonly string[] {
  return kindOf(text)?.isServer === true ? splitStores(text) : [text];
}

function kindOf(text: string): StoreKind | undefined {
  return KINDS.find(({ matches }) => matches(text));
}

/** A text, or a list of texts, of stores. */
export type StoreText = string | readonly string[];

function textsOf(store: StoreText): readonly string[] {
  return typeof store === "string" ? storeTexts(store) : store;
}

export function isStoreText(value: unknown): value is StoreText {
  const isText = (text: unknown): text is string =>
    typeof text === "string" && kindOf(text) !== undefined;
  return Array.isArray(value) ? value.length > 0 && value.every(isText) : isText(value);
}

/** Throws `INVALID_ARGUMENT` for what can be refused before the store is opened. */
export function checkStoreText(store: StoreText): void {
  const texts = textsOf(store);
  for (const text of texts) kindOf(text)?.check?.(text);
  if (texts.length === 1) return;
  const refuse = (message: string) => {
    throw serviceError("INVALID_ARGUMENT", message);
  };
  if (texts.length > MAX_SHARDS) {
    refuse(`store must name at most ${MAX_SHARDS} shards, got ${texts.length}`);
  }
  const names = texts.map(storeName);
  const local = texts.findIndex((text) => kindOf(text)?.isServer !== true);
  if (local >= 0) {
    refuse(`a shard must be on a server: postgres://... or redis://..., got ${names[local]}`);
  }
  const twice = texts.find((text, index) => texts.indexOf(text) !== index);
  if (twice !== undefined) refuse(`store must name each shard once, got ${storeName(twice)} twice`);
}

export interface OpenOptions {
  readonly clock: Clock;
  /** A new id, for a new list of shards. */
  readonly newId: () => string;
  /** The numbers of the shards of tenants that do not use all, from 1. Default: all do. */
  readonly tenantShards?: Readonly<Record<string, readonly number[]>> | undefined;
}

/** The store was checked. A failure leaves nothing open. */
export async function openStore(store: StoreText | Store, options: OpenOptions): Promise<Store> {
  if (typeof store !== "string" && !Array.isArray(store)) return store as Store;
  const { clock, newId, tenantShards = {} } = options;
  const texts = textsOf(store);
  const tenants = readTenants(tenantShards, texts.length);
  if (texts.length === 1) return openUnsharded(texts[0] as string);
  return opening(texts, async (stores) => {
    await assertLayout({ stores, names: texts.map(storeName), tenants, newId });
    return shardedStore(stores, { clock, tenants });
  });
}

/** Opens one store. Throws `INVALID_ARGUMENT` if it is a shard of another one. */
export function openUnsharded(text: string): Promise<Store> {
  return opening([text], async ([store]) => {
    const only = store as Store;
    if (!only.exclusive) await assertUnsharded(only, storeName(text));
    return only;
  });
}

/** Opens the stores and joins them. A failure leaves none open. */
async function opening(
  texts: readonly string[],
  join: (stores: readonly Store[]) => Promise<Store>,
): Promise<Store> {
  const opened: Store[] = [];
  try {
    for (const text of texts) opened.push(await openOne(text));
    return await join(opened);
  } catch (error) {
    await Promise.allSettled(opened.map((one) => one.close()));
    throw error;
  }
}

function openOne(text: string): Store | Promise<Store> {
  const kind = kindOf(text);
  if (kind === undefined)
    throw new Error("the text of a store must be checked before it is opened");
  return kind.open(text);
}

/** Throws `INVALID_ARGUMENT` for shards that do not exist. */
function readTenants(
  tenants: Readonly<Record<string, readonly number[]>>,
  count: number,
): TenantShards {
  return new Map(
    Object.entries(tenants).map(([tenantId, shards]) => {
      const isGood = (shard: number) => Number.isInteger(shard) && shard >= 1 && shard <= count;
      if (shards.length === 0 || !shards.every(isGood) || new Set(shards).size < shards.length) {
        const text = `tenantShards of ${JSON.stringify(tenantId)} must be different shards from 1 to ${count}`;
        throw serviceError("INVALID_ARGUMENT", `${text}, got ${JSON.stringify(shards)}`);
      }
      return [tenantId, shards.map((shard) => shard - 1).sort((a, b) => a - b)];
    }),
  );
}
