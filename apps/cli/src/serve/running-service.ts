/**
 * Running service: starts a service and its HTTP server in this process. A failed start leaves
 * nothing open, and a stop lets running attempts finish.
 */

import { createHmac } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { createRedrive, type Redrive } from "@redrive/service";
import { type AppOptions, assertMayListen, createApp, listenApp } from "@redrive/service/http";
import { isPortTaken, probePort } from "./ports.ts";
import { acceptedKeys, type ServiceConfig } from "./service-config.ts";
import { threadSimulator } from "./simulate-on-thread.ts";
import type { RunningTelemetry } from "./telemetry.ts";

export type App = ReturnType<typeof createApp>;

export interface RunningService {
  readonly url: string;
  readonly app: App;
  readonly redrive: Redrive;
  /** No key is required on an address that other machines can reach (`--insecure-no-auth`). */
  readonly isUnauthenticated: boolean;
  /** Refuses new requests, claims no more tasks, waits for running attempts, closes. Safe to call twice. */
  stop(): Promise<void>;
}

interface StartOptions {
  readonly apiKey?: string | undefined;
  readonly encryptionKey?: string | undefined;
  readonly logger?: AppOptions["logger"];
  /** Runs before the port opens, to add routes and policies. */
  readonly prepare?: (app: App, redrive: Redrive) => Promise<void> | void;
  /** Gets spans and metrics; it is flushed when the service has stopped. */
  readonly telemetry?: RunningTelemetry | undefined;
  /** The store has failed, and the service accepts no more tasks. */
  readonly onFatal?: (error: unknown) => void;
}

/**
 * The built web pages: next to this package in a checkout, inside it when published. The paths are
 * the same from the sources and from the built files.
 */
const PAGES_FOLDERS = ["../../../web/dist", "../../pages"].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
);

/** Maximum tries to find a free port for port 0. */
const MAX_PORTS_TRIED = 5;

/** Resolves when the port is open. */
export async function startService(
  config: ServiceConfig,
  options: StartOptions = {},
): Promise<RunningService> {
  const keys = acceptedKeys(config.store, options.apiKey);
  assertMayListen(config.host, keys !== undefined || config.insecureNoAuth === true);
  for (let tried = 1; ; tried++) {
    const port = await findPort(config);
    try {
      return await startOnPort(port, config, keys, options);
    } catch (error) {
      // Another process took the port after it was probed.
      if (config.port !== 0 || !isPortTaken(error) || tried === MAX_PORTS_TRIED) throw error;
    }
  }
}

async function startOnPort(
  port: number,
  config: ServiceConfig,
  keys: AppOptions["keys"],
  options: StartOptions,
): Promise<RunningService> {
  const { host, insecureNoAuth = false } = config;
  const redrive = await createRedrive({
    ...serviceOptions(config, port),
    ...(options.encryptionKey && { encryptionKey: options.encryptionKey }),
    ...(options.telemetry && { telemetry: options.telemetry.options }),
    ...fatal(options),
  });
  const app = createApp(redrive, {
    ...appOptions(config, keys, options.logger),
    ...sessionSecret(options),
  });
  const stop = stopOnce(app, redrive, options.telemetry);
  try {
    await options.prepare?.(app, redrive);
    const isUnauthenticated = insecureNoAuth && keys === undefined;
    return {
      url: await listenApp(app, { host, port }),
      app,
      redrive,
      isUnauthenticated,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Throws the same error as listening if the port is taken. */
async function findPort({ host, port }: ServiceConfig): Promise<number> {
  const found = await probePort(host, port);
  if (found !== undefined) return found;
  throw Object.assign(new Error(`port ${port} of ${host} is taken`), { code: "EADDRINUSE" });
}

function serviceOptions(config: ServiceConfig, port: number) {
  const { host, store, allowTargets, retryBudget, retentionMs, deadLetterRetentionMs } = config;
  const { attemptsAtOnce, attemptsPerOrigin } = config;
  const { resolver, leaseMs, maxClockStepMs, maxClockAheadMs, alerts } = config;
  return {
    store,
    targets:
      isLoopback(host) && !config.insecureNoAuth ? ("loopback" as const) : ("public" as const),
    own: [{ port }],
    ...bodyOptions(config),
    ...(allowTargets !== undefined && { allowTargets }),
    ...(resolver !== undefined && { resolver }),
    ...(retryBudget !== undefined && { retryBudget }),
    ...(attemptsAtOnce !== undefined && { attemptsAtOnce }),
    ...(attemptsPerOrigin !== undefined && { attemptsPerOrigin }),
    ...(retentionMs !== undefined && { retentionMs }),
    ...(deadLetterRetentionMs !== undefined && { deadLetterRetentionMs }),
    ...(leaseMs !== undefined && { leaseMs }),
    ...(alerts !== undefined && { alerts }),
    ...(maxClockStepMs !== undefined && { maxClockStepMs }),
    ...(maxClockAheadMs !== undefined && { maxClockAheadMs }),
  };
}

function bodyOptions({ blobs, inlineBodyBytes, maxBodyBytes }: ServiceConfig) {
  return {
    ...(blobs !== undefined && { blobs }),
    ...(inlineBodyBytes !== undefined && { inlineBodyBytes }),
    ...(maxBodyBytes !== undefined && { maxBodyBytes }),
  };
}

function appOptions(
  config: ServiceConfig,
  keys: AppOptions["keys"],
  logger: AppOptions["logger"],
): AppOptions {
  const { hosts, requestsPerSecond, requestsAtOnce, maxWaiting, insecureNoAuth } = config;
  const { maxConnectionsPerAddress } = config;
  return {
    pagesFolder: pagesFolder(),
    simulator: threadSimulator,
    ...(insecureNoAuth !== undefined && { insecureNoAuth }),
    ...(requestsAtOnce !== undefined && { requestsAtOnce }),
    ...(keys !== undefined && { keys }),
    ...(hosts !== undefined && { hosts }),
    ...(requestsPerSecond !== undefined && { requestsPerSecond }),
    ...(maxWaiting !== undefined && { maxWaiting }),
    ...(maxConnectionsPerAddress !== undefined && { maxConnectionsPerAddress }),
    ...(logger !== undefined && { logger }),
  };
}

/** Nodes with the same encryption key accept each other's sessions, also after a restart. */
function sessionSecret({ encryptionKey }: StartOptions): Pick<AppOptions, "sessionSecret"> {
  const [key = ""] = encryptionKey?.split(",") ?? [];
  if (key === "") return {};
  return { sessionSecret: createHmac("sha256", key).update("redrive sessions").digest() };
}

/** If the pages are missing, the HTTP server says so under `/ui/`. */
function pagesFolder(): string {
  const [clone = ""] = PAGES_FOLDERS;
  return PAGES_FOLDERS.find((folder) => existsSync(join(folder, "index.html"))) ?? clone;
}

function fatal({ onFatal }: StartOptions) {
  return onFatal === undefined ? {} : { onFatal };
}

function stopOnce(
  app: App,
  redrive: Redrive,
  telemetry: RunningTelemetry | undefined,
): () => Promise<void> {
  let stopping: Promise<void> | undefined;
  return () => {
    stopping ??= app
      .close()
      .then(() => redrive.stop())
      .then(() => telemetry?.shutdown());
    return stopping;
  };
}

/** True if only this machine can reach the host. */
export function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/u.test(host);
}

/** Calls `stop` on the first signal. Further signals have no effect. */
export function onStopSignal(
  stop: (signal: NodeJS.Signals) => Promise<void>,
  signals: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM"],
): void {
  let isStopping = false;
  for (const signal of signals) {
    process.on(signal, () => {
      if (!isStopping) void stop(signal);
      isStopping = true;
    });
  }
}
