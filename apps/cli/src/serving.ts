/**
 * Serving: a service and its HTTP front in this process, opened in an order that leaves nothing
 * half open, and stopped so that no attempt is cut off that could have ended.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { createRedrive, type Redrive } from "@redrive/service";
import { type AppOptions, assertMayListen, createApp, listenApp } from "@redrive/service/http";
import { keysOf } from "./key-books.ts";
import { isTaken, openablePort } from "./ports.ts";
import type { ServiceConfig } from "./service-config.ts";

export type App = ReturnType<typeof createApp>;

export interface Serving {
  readonly url: string;
  readonly app: App;
  readonly redrive: Redrive;
  /** Anybody may call, because somebody wanted that. */
  readonly isOpenToAll: boolean;
  /** Takes no more requests, claims no more, lets what runs end, and closes. Safe twice. */
  stop(): Promise<void>;
}

export interface ServingOptions {
  readonly apiKey?: string | undefined;
  readonly encryptionKey?: string | undefined;
  readonly logger?: AppOptions["logger"];
  /** Before the port opens: more routes, first policies. */
  readonly prepare?: (app: App, redrive: Redrive) => Promise<void> | void;
  /** The store can no longer be relied on; nothing is accepted any more. */
  readonly onFatal?: (error: unknown) => void;
}

/**
 * What `npm run build` makes of apps/web: in a clone beside this package, in a published one inside
 * it. Both are as far from the sources here as from the built files.
 */
const PAGES_FOLDERS = ["../../web/dist", "../pages"].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
);

/** Attempts under way have this long to end when the service is told to stop. */
const GRACE_MS = 10_000;

/** How often a free port is looked for, where any will do. */
const PORTS_TRIED = 5;

/** Resolves once the port is open. */
export async function openServing(
  config: ServiceConfig,
  options: ServingOptions = {},
): Promise<Serving> {
  const keys = keysOf(config.store, options.apiKey);
  assertMayListen(config.host, keys !== undefined || config.insecureNoAuth === true);
  for (let tried = 1; ; tried++) {
    const port = await portFor(config);
    try {
      return await openOn(port, config, keys, options);
    } catch (error) {
      // Between looking and opening somebody else took it.
      if (config.port !== 0 || !isTaken(error) || tried === PORTS_TRIED) throw error;
    }
  }
}

async function openOn(
  port: number,
  config: ServiceConfig,
  keys: AppOptions["keys"],
  options: ServingOptions,
): Promise<Serving> {
  const { host, insecureNoAuth = false } = config;
  const redrive = await createRedrive({
    ...serviceOptions(config, port),
    ...(options.encryptionKey && { encryptionKey: options.encryptionKey }),
    ...fatal(options),
  });
  const app = createApp(redrive, appOptions(config, keys, options.logger));
  const stop = stopOnce(app, redrive);
  try {
    await options.prepare?.(app, redrive);
    const isOpenToAll = insecureNoAuth && keys === undefined;
    return { url: await listenApp(app, { host, port }), app, redrive, isOpenToAll, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A taken port is told as listening would tell it. */
async function portFor({ host, port }: ServiceConfig): Promise<number> {
  const found = await openablePort(host, port);
  if (found !== undefined) return found;
  throw Object.assign(new Error(`port ${port} of ${host} is taken`), { code: "EADDRINUSE" });
}

function serviceOptions(config: ServiceConfig, port: number) {
  const { host, store, allowTargets, retryBudget, retentionMs, deadLetterRetentionMs } = config;
  return {
    store,
    targets:
      isLoopback(host) && !config.insecureNoAuth ? ("loopback" as const) : ("public" as const),
    own: [{ port }],
    ...(allowTargets !== undefined && { allowTargets }),
    ...(retryBudget !== undefined && { retryBudget }),
    ...(retentionMs !== undefined && { retentionMs }),
    ...(deadLetterRetentionMs !== undefined && { deadLetterRetentionMs }),
  };
}

function appOptions(
  config: ServiceConfig,
  keys: AppOptions["keys"],
  logger: AppOptions["logger"],
): AppOptions {
  const { hosts, requestsPerSecond, requestsAtOnce, mostWaiting, insecureNoAuth } = config;
  return {
    pagesFolder: pagesFolder(),
    ...(insecureNoAuth !== undefined && { insecureNoAuth }),
    ...(requestsAtOnce !== undefined && { requestsAtOnce }),
    ...(keys !== undefined && { keys }),
    ...(hosts !== undefined && { hosts }),
    ...(requestsPerSecond !== undefined && { requestsPerSecond }),
    ...(mostWaiting !== undefined && { maxWaiting: mostWaiting }),
    ...(logger !== undefined && { logger }),
  };
}

/** Where no pages are, the front says so under `/ui/`. */
function pagesFolder(): string {
  const [clone = ""] = PAGES_FOLDERS;
  return PAGES_FOLDERS.find((folder) => existsSync(join(folder, "index.html"))) ?? clone;
}

function fatal({ onFatal }: ServingOptions) {
  return onFatal === undefined ? {} : { onFatal };
}

function stopOnce(app: App, redrive: Redrive): () => Promise<void> {
  let stopping: Promise<void> | undefined;
  return () => {
    stopping ??= app.close().then(() => redrive.stop(GRACE_MS));
    return stopping;
  };
}

/** Only this machine can reach it. */
export function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/u.test(host);
}

/** Runs until a signal says to stop; a second signal changes nothing. */
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
