/**
 * The HTTP front of the service: the surface of `@redrive/service/http`. Apart from the service
 * itself, so that whoever embeds that loads no web server.
 */

export {
  createKey,
  fileKeyStore,
  type KeyLimits,
  type KeyRecord,
  type KeyStore,
  memoryKeyStore,
  type NewKey,
  recordOfKey,
  SCOPES,
  type Scope,
} from "./access/keys.ts";
export { type AppOptions, createApp } from "./app.ts";
export {
  assertMayListen,
  DEFAULT_HOST,
  DEFAULT_PORT,
  type ListenOptions,
  listenApp,
} from "./listen.ts";
