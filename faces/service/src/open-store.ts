/**
 * Open store: opens the store that a text names. The scheme of the text chooses the kind. A driver
 * that a store needs is loaded when the store is opened.
 */
import type { Store } from "./model/store.ts";
import { memoryStore } from "./stores/memory/memory-store.ts";
import { isPostgresUrl, readAddress } from "./stores/postgres/connection/address.ts";
import { postgresStore } from "./stores/postgres/postgres-store.ts";
import { isRedisUrl, parseRedisUrl } from "./stores/redis/connection/redis-url.ts";
import { redisStore } from "./stores/redis/redis-store.ts";
import { sqliteStore } from "./stores/sqlite/sqlite-store.ts";

interface StoreKind {
  readonly matches: (text: string) => boolean;
  /** Throws `INVALID_ARGUMENT` for a text that names no store of this kind. Default: all do. */
  readonly check?: (text: string) => void;
  readonly open: (text: string) => Store | Promise<Store>;
}

const KINDS: readonly StoreKind[] = [
  { matches: (text) => text === "memory:", open: () => memoryStore() },
  {
    matches: (text) => /^sqlite:./su.test(text),
    open: (text) => sqliteStore(text.slice("sqlite:".length), { lowLatency: true }),
  },
  { matches: isPostgresUrl, check: readAddress, open: (text) => postgresStore(text) },
  { matches: isRedisUrl, check: parseRedisUrl, open: redisStore },
];

/** What a store is called in messages. */
export const STORE_FORMS = "sqlite:PATH, postgres://..., redis://... or memory:";

export function isStoreText(text: string): boolean {
  return KINDS.some((kind) => kind.matches(text));
}

/** Throws `INVALID_ARGUMENT` for what can be refused before the store is opened. */
export function checkStoreText(text: string): void {
  KINDS.find((kind) => kind.matches(text))?.check?.(text);
}

/** `isStoreText` is true of the text. */
export async function openStore(store: string | Store): Promise<Store> {
  if (typeof store !== "string") return store;
  const kind = KINDS.find(({ matches }) => matches(store));
  if (kind === undefined)
    throw new Error("the text of a store must be checked before it is opened");
  return kind.open(store);
}
