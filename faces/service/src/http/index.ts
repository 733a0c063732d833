/**
 * The public surface of `@redrive/service/http`. It is a separate entry point, so that a program
 * that embeds the service loads no web server.
 */

export type { SimulatedRun, Simulator } from "../operations/simulations.ts";
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
} from "./access.ts";
export {
  assertMayListen,
  DEFAULT_HOST,
  DEFAULT_PORT,
  type ListenOptions,
  listenApp,
} from "./listen.ts";
export { RepeatedLines } from "./problem.ts";
export { type AppOptions, createApp } from "./server.ts";
