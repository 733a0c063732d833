/**
 * API keys: the keys that a service accepts: those in the file next to its store, and
 * `REDRIVE_API_KEY`. Without any key, calls need none, and the service may listen only on loopback.
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

/** The key file of a store. Undefined for a store that has no file. */
export function keyFilePath(store: string): string | undefined {
  const path = storePath(store);
  return path === undefined ? undefined : `${path}.keys.json`;
}

/** Undefined if there is no key: then calls need none. */
export function acceptedKeys(store: string, apiKey: string | undefined): KeyStore | undefined {
  const path = keyFilePath(store);
  const file = path === undefined ? memoryKeyStore() : fileKeyStore(path, systemClock);
  const given = apiKey ? environmentKey(apiKey) : undefined;
  if (given === undefined) return file.list().length > 0 ? file : undefined;
  return {
    ...file,
    find: (keyId) => (keyId === given.keyId ? given : file.find(keyId)),
    list: () => [given, ...file.list()],
    isRevocable: (keyId) => keyId !== given.keyId && file.isRevocable(keyId),
  };
}

function environmentKey(apiKey: string): KeyRecord {
  const now = systemClock.now();
  const name = "REDRIVE_API_KEY";
  return recordOfKey(apiKey, { tenantId: "default", scopes: ["admin"], name, now });
}
