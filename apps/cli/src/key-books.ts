/**
 * Key books: which API keys a service accepts: those of the file beside its store, and the one of
 * `REDRIVE_API_KEY`. Without any, nobody needs one, and only loopback may be listened on.
 */
import { systemClock } from "@redrive/core";
import {
  fileKeyStore,
  type KeyRecord,
  type KeyStore,
  memoryKeyStore,
  recordOfKey,
} from "@redrive/service/http";
import { storePath } from "./service-config.ts";

/** Undefined for a store that keeps nothing. */
export function keyFileOf(store: string): string | undefined {
  const path = storePath(store);
  return path === undefined ? undefined : `${path}.keys.json`;
}

/** Undefined if no key is known: anybody may call. */
export function keysOf(store: string, apiKey: string | undefined): KeyStore | undefined {
  const path = keyFileOf(store);
  const file = path === undefined ? memoryKeyStore() : fileKeyStore(path, systemClock);
  const given = apiKey ? environmentKey(apiKey) : undefined;
  if (given === undefined) return file.list().length > 0 ? file : undefined;
  return {
    ...file,
    find: (keyId) => (keyId === given.keyId ? given : file.find(keyId)),
    list: () => [given, ...file.list()],
  };
}

function environmentKey(apiKey: string): KeyRecord {
  const now = systemClock.now();
  const name = "REDRIVE_API_KEY";
  return recordOfKey(apiKey, { tenantId: "default", scopes: ["admin"], name, now });
}
