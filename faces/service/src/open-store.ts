/**
 * Open store: opens the store that a text names. The scheme of the text chooses the kind. A driver that a
 * store needs is loaded when the store is opened.
 */
import { serviceError } from "./model/errors.ts";
import type { Store } from "./model/store.ts";
import { memoryStore } from "./stores/memory/memory-store.ts";
import { isPostgresUrl, readAddress } from "./stores/postgres/connection/sql.ts";
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
  { matches: isPostgresUrl, check: onServer(readAddress), open: (text) => postgresStore(text) },
  { matches: isRedisUrl, check: onServer(parseRedisUrl), open: redisStore },
];

/** What a store is called in messages. */
export const STORE_FORMS = "sqlite:PATH, postgres://..., redis://... or memory:";

/** URLs may have commas themselves, so only a comma before a scheme separates two stores. */
const SECOND_STORE = /,(?=[a-z+]+:\/\/|sqlite:|memory:)/u;

/** A service has one store. The nodes of a cluster of Redis are hosts of one URL. */
function onServer(check: (text: string) => void): (text: string) => void {
  return (text) => {
    if (SECOND_STORE.test(text)) {
      const message = `store must name one store, got ${text.split(SECOND_STORE).length}: ${storeName(text)}`;
      throw serviceError("INVALID_ARGUMENT", message);
    }
    check(text);
  };
}

function kindOf(text: string): StoreKind | undefined {
  return KINDS.find(({ matches }) => matches(text));
}

export function isStoreText(value: unknown): value is string {
  return typeof value === "string" && kindOf(value) !== undefined;
}

/** Throws `INVALID_ARGUMENT` for what can be refused before the store is opened. */
export function checkStoreText(text: string): void {
  kindOf(text)?.check?.(text);
}

/** The store was checked. */
export async function openStore(store: string | Store): Promise<Store> {
  if (typeof store !== "string") return store;
  const kind = kindOf(store);
  if (kind === undefined)
    throw new Error("the text of a store must be checked before it is opened");
  return kind.open(store);
}

/** Parameters may contain a password too. A path of SQLite has none of these. */
const CREDENTIALS = /^(?!sqlite:)([a-z+]+:(?:\/\/)?)(?:[^/?#]*@)?([^?#]*).*$/isu;

/** A refused text may name several stores, each with a password. */
const SEPARATOR = /,(?=[a-z+]+:\/\/|sqlite:|memory:)/u;

/** The text of a store without its user and password, for logs and messages. */
export function storeName(store: string): string {
  const nameOf = (text: string) => text.replace(CREDENTIALS, "$1$2");
  return /^sqlite:/iu.test(store) ? store : store.split(SEPARATOR).map(nameOf).join();
}
