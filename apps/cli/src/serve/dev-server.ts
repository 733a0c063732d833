/**
 * Dev: `redrive dev`, the product on this machine with nothing to set up. Binds loopback only, and
 * moves on to the next port when its own is taken, so that two clones run side by side.
 */
import { join, relative } from "node:path";
import { systemClock, systemRandom } from "@redrive/core";
import type { Terminal } from "../print/terminal.ts";
import { addPages } from "./dev-pages.ts";
import { DEMO_POLICY, devWelcome } from "./dev-welcome.ts";
import { type FlakyDestination, startFlakyDestination } from "./flaky-destination.ts";
import { isPortTaken, nextFreePort } from "./ports.ts";
import { onStopSignal, type RunningService, startService } from "./running-service.ts";

const HOST = "127.0.0.1";

/** From the service's port to that of the flaky destination: the same again at the next start. */
const FLAKY_PORT_GAP = 100;

export interface DevServerOptions {
  readonly port: number;
  /** Where the data is kept. */
  readonly folder: string;
}

export interface DevServer {
  readonly url: string;
  readonly flakyUrl: string;
  readonly dataFile: string;
  /** Safe twice. */
  stop(): Promise<void>;
}

/** Runs until told to stop by a signal; a second signal changes nothing. */
export async function runDevServer(
  terminal: Terminal,
  options: { readonly port: number },
): Promise<void> {
  const dev = await startDevServer({ ...options, folder: join(process.cwd(), ".redrive") });
  const dataFile = relative(process.cwd(), dev.dataFile);
  const doors = devWelcome({ ...dev, dataFile, command: "npx redrive" });
  // A closed terminal ends it too; a service that is told nohup outlives that.
  onStopSignal(() => dev.stop(), ["SIGINT", "SIGTERM", "SIGHUP"]);
  terminal.print(`${doors.join("\n")}\nRedrive is ready at ${dev.url}/\n`);
}

/** Resolves once the ports are open. */
export async function startDevServer({ port, folder }: DevServerOptions): Promise<DevServer> {
  const { serving, dataFile } = await startOnFreePort(port, folder);
  const flaky = await startFlaky(serving);
  return {
    url: serving.url,
    flakyUrl: flaky.url,
    dataFile,
    stop: async () => {
      await serving.stop();
      await flaky.stop();
    },
  };
}

interface StartedService {
  readonly serving: RunningService;
  readonly dataFile: string;
}

/** Somebody may take a port between looking and opening; then the next one is tried. */
async function startOnFreePort(from: number, folder: string): Promise<StartedService> {
  const port = await nextFreePort(HOST, from);
  try {
    return await startWithDataFile(port, folder);
  } catch (error) {
    if (!isPortTaken(error)) throw error;
    return startOnFreePort(port + 1, folder);
  }
}

/** A second one in the same folder has data of its own: a file belongs to one process. */
async function startWithDataFile(port: number, folder: string): Promise<StartedService> {
  const usual = join(folder, "dev.db");
  try {
    return { serving: await open(port, usual), dataFile: usual };
  } catch (error) {
    if (!/ is in use by another process/u.test((error as Error).message)) throw error;
    const own = join(folder, `dev-${port}.db`);
    return { serving: await open(port, own), dataFile: own };
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

async function startFlaky(serving: RunningService): Promise<FlakyDestination> {
  const port = Number(new URL(serving.url).port) + FLAKY_PORT_GAP;
  try {
    return await startFlakyDestination(systemClock, systemRandom, { host: HOST, port });
  } catch (error) {
    await serving.stop();
    throw error;
  }
}
