/**
 * Dev server: the service of `redrive dev`, which needs no setup. It listens only on loopback and
 * uses the next free port if its own is taken, so that two checkouts can run at the same time.
 */
import { basename, join, relative } from "node:path";
import { systemClock, systemRandom } from "@redrive/core";
import { eventLine } from "../print/event-text.ts";
import type { Terminal } from "../print/terminal.ts";
import { addPages } from "./dev-pages.ts";
import { DEMO_POLICY, devWelcome } from "./dev-welcome.ts";
import { type FlakyDestination, startFlakyDestination } from "./flaky-destination.ts";
import { isPortTaken, nextFreePort } from "./ports.ts";
import { onStopSignal, type RunningService, startService } from "./running-service.ts";

const HOST = "127.0.0.1";

/** The flaky destination's port is this far from the service's, so a restart gets the same port. */
const FLAKY_PORT_GAP = 100;

/** The data file, unless another process uses it. */
const SHARED_FILE = "dev.db";

export interface DevServerOptions {
  readonly port: number;
  /** Folder of the data file. */
  readonly folder: string;
}

export interface DevServer {
  readonly url: string;
  readonly flakyUrl: string;
  readonly dataFile: string;
  /** What differs from what was asked for, in sentences. */
  readonly changes: readonly string[];
  readonly onEvent: RunningService["redrive"]["onEvent"];
  /** Safe to call twice. */
  stop(): Promise<void>;
}

/** Runs until a signal stops it. A second signal has no effect. */
export async function runDevServer(
  terminal: Terminal,
  options: { readonly port: number },
): Promise<void> {
  const dev = await startDevServer({ ...options, folder: join(process.cwd(), ".redrive") });
  const dataFile = relative(process.cwd(), dev.dataFile);
  for (const change of dev.changes) terminal.print(`${change}\n`);
  const welcome = devWelcome({ ...dev, dataFile, command: "npx redrive" });
  // SIGHUP: a closed terminal stops it too. With nohup it continues.
  onStopSignal(async () => {
    terminal.print("\nStopping: running attempts finish first.\n");
    await dev.stop();
    terminal.print(
      `Stopped. The tasks are in ${dataFile}, and \`redrive dev\` continues with them.\n`,
    );
  }, ["SIGINT", "SIGTERM", "SIGHUP"]);
  terminal.print(`${welcome.join("\n")}\nRedrive is ready at ${dev.url}/\n`);
  dev.onEvent((event) => terminal.print(eventLine(event, terminal) ?? ""));
}

/** Resolves once the ports are open. */
export async function startDevServer({ port, folder }: DevServerOptions): Promise<DevServer> {
  const { service, dataFile } = await startOnFreePort(port, folder);
  const flaky = await startFlaky(service);
  return {
    url: service.url,
    flakyUrl: flaky.url,
    dataFile,
    changes: changesOf(port, service.url, dataFile),
    onEvent: (listener) => service.redrive.onEvent(listener),
    stop: async () => {
      await service.stop();
      await flaky.stop();
    },
  };
}

function changesOf(wanted: number, url: string, dataFile: string): readonly string[] {
  const { port } = new URL(url);
  const isMoved = wanted !== 0 && port !== String(wanted);
  const isOwnFile = basename(dataFile) !== SHARED_FILE;
  return [
    ...(isMoved ? [`Port ${wanted} is taken, so the service uses ${port}.`] : []),
    ...(isOwnFile
      ? [`Another process uses ${SHARED_FILE}, so the data is in ${basename(dataFile)}.`]
      : []),
  ];
}

interface StartedService {
  readonly service: RunningService;
  readonly dataFile: string;
}

/** Another process may take the port between the probe and the start; then the next one is tried. */
async function startOnFreePort(from: number, folder: string): Promise<StartedService> {
  const port = await nextFreePort(HOST, from);
  try {
    return await startWithDataFile(port, folder);
  } catch (error) {
    if (!isPortTaken(error)) throw error;
    return startOnFreePort(port + 1, folder);
  }
}

/** A second server in the same folder gets its own data file, because a file belongs to one process. */
async function startWithDataFile(port: number, folder: string): Promise<StartedService> {
  const shared = join(folder, SHARED_FILE);
  try {
    return { service: await open(port, shared), dataFile: shared };
  } catch (error) {
    if (!/ is in use by another process/u.test((error as Error).message)) throw error;
    const own = join(folder, `dev-${port}.db`);
    return { service: await open(port, own), dataFile: own };
  }
}

function open(port: number, dataFile: string): Promise<RunningService> {
  return startService(
    { host: HOST, port, store: `sqlite:${dataFile}` },
    {
      logger: { level: "warn" },
      async prepare(app, redrive) {
        addPages(app);
        await redrive.policies.replace(DEMO_POLICY);
      },
    },
  );
}

async function startFlaky(service: RunningService): Promise<FlakyDestination> {
  const port = Number(new URL(service.url).port) + FLAKY_PORT_GAP;
  try {
    return await startFlakyDestination(systemClock, systemRandom, { host: HOST, port });
  } catch (error) {
    await service.stop();
    throw error;
  }
}
