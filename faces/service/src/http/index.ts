/**
 * The public surface of `@redrive/service/http`. It is a separate entry point, so that a program
 * that embeds the service loads no web server.
 */

export type { SimulatedRun, Simulator } from "../operations/simulation/simulations.ts";
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
