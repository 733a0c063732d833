/**
 * Dev: `redrive dev`, the product on this machine with nothing to set up. Binds loopback only, and
 * moves on to the next port when its own is taken, so that two clones run side by side.
 */
import { join, relative } from "node:path";
import { systemClock, systemRandom } from "@redrive/core";
import { addPages } from "./answer.ts";
import { DEMO_POLICY, doorLines } from "./doors.ts";
import { type FlakyDestination, startFlakyDestination } from "./flaky-destination.ts";
import { isTaken, nextFreePort } from "./ports.ts";
import type { Screen } from "./screen.ts";
import { onStopSignal, openServing, type Serving } from "./serving.ts";

const HOST = "127.0.0.1";

/** From the service's port to that of the flaky destination: the same again at the next start. */
const FLAKY_PORT_GAP = 100;

export interface DevOptions {
  readonly port: number;
  /** Where the data is kept. */
  readonly folder: string;
}

export interface Dev {
  readonly url: string;
  readonly flakyUrl: string;
  readonly dataFile: string;
  /** Safe twice. */
  stop(): Promise<void>;
}

/** Runs until told to stop by a signal; a second signal changes nothing. */
export async function runDev(screen: Screen, options: { readonly port: number }): Promise<void> {
  const dev = await startDev({ ...options, folder: join(process.cwd(), ".redrive") });
  const dataFile = relative(process.cwd(), dev.dataFile);
  const doors = doorLines({ ...dev, dataFile, command: "npx redrive" });
  // A closed terminal ends it too; a service that is told nohup outlives that.
  onStopSignal(() => dev.stop(), ["SIGINT", "SIGTERM", "SIGHUP"]);
  screen.print(`${doors.join("\n")}\nRedrive is ready at ${dev.url}/\n`);
}

/** Resolves once the ports are open. */
export async function startDev({ port, folder }: DevOptions): Promise<Dev> {
  const { serving, dataFile } = await openFrom(port, folder);
  const flaky = await openFlaky(serving);
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

interface Opened {
  readonly serving: Serving;
  readonly dataFile: string;
}

/** Somebody may take a port between looking and opening; then the next one is tried. */
async function openFrom(from: number, folder: string): Promise<Opened> {
  const port = await nextFreePort(HOST, from);
  try {
    return await openWithData(port, folder);
  } catch (error) {
    if (!isTaken(error)) throw error;
    return openFrom(port + 1, folder);
  }
}

/** A second one in the same folder has data of its own: a file belongs to one process. */
async function openWithData(port: number, folder: string): Promise<Opened> {
  const usual = join(folder, "dev.db");
  try {
    return { serving: await open(port, usual), dataFile: usual };
  } catch (error) {
    if (!/ is in use by another process/u.test((error as Error).message)) throw error;
    const own = join(folder, `dev-${port}.db`);
    return { serving: await open(port, own), dataFile: own };
  }
}

function open(port: number, dataFile: string): Promise<Serving> {
  return openServing(
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

async function openFlaky(serving: Serving): Promise<FlakyDestination> {
  const port = Number(new URL(serving.url).port) + FLAKY_PORT_GAP;
  try {
    return await startFlakyDestination(systemClock, systemRandom, { host: HOST, port });
  } catch (error) {
    await serving.stop();
    throw error;
  }
}
