/**
 * Dev server: the service of `redrive dev`, which needs no setup. It listens only on loopback and
 * uses the next free port if its own is taken, so that two checkouts can run at the same time.
 */
import { basename, join, relative } from "node:path";
import {
  compilePolicy,
  type PolicyDocument,
  presets,
  resolvePolicy,
  systemClock,
  systemRandom,
} from "@redrive/core";
import { eventLine } from "../terminal/event-text.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { type FlakyDestination, startFlakyDestination } from "./flaky-destination.ts";
import { isPortTaken, nextFreePort } from "./ports.ts";
import { type App, onStopSignal, type RunningService, startService } from "./running-service.ts";

const HOST = "127.0.0.1";

/** The flaky destination's port is this far from the service's, so a restart gets the same port. */
const FLAKY_PORT_GAP = 100;

/** The data file, unless another process uses it. */
const SHARED_FILE = "dev.db";

interface DevServerOptions {
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

// Dev welcome: the first output of `redrive dev`: three things to try, ready to paste.

interface DevWelcomeOptions {
  /** URL of the service, without a trailing slash. */
  readonly url: string;
  readonly flakyUrl: string;
  readonly dataFile: string;
  /** The command to run the CLI: `npx redrive`. */
  readonly command: string;
}

/** Retries for about ten seconds, so that a user can watch a task become a dead letter. */
const DEMO_POLICY = {
  policyId: "demo",
  description: "For demos: five attempts within about ten seconds.",
  maxAttempts: 5,
  initialDelayMs: 500,
  maxDelayMs: 4000,
  jitterType: "EQUAL",
  totalBudgetMs: 60_000,
  attemptTimeoutMs: 5000,
} as const;

/** The CLI's default address, which needs no --url. */
const DEFAULT_URL = "http://127.0.0.1:7337";

/** Returns the lines. Commands have no trailing comments, because zsh treats those as arguments. */
function devWelcome({ url, flakyUrl, dataFile, command }: DevWelcomeOptions): readonly string[] {
  const task = { targetUrl: `${flakyUrl}/orders`, policyId: "demo", json: { order: 42 } };
  const flag = url === DEFAULT_URL ? "" : ` --url ${url}`;
  return [
    `Redrive stores its data in ${dataFile}. Try this in a second terminal, in this folder:`,
    "",
    "1. Create a task for a destination that fails one time in five:",
    "",
    `   curl --json '${JSON.stringify(task)}' ${url}/retry-tasks`,
    "",
    "   Break the destination, create another task, and watch it become a dead letter:",
    "",
    `   curl '${flakyUrl}/break?for=10m'`,
    `   ${command} send ${flakyUrl}/orders --policy demo --body-json '{"order":43}' --wait 25s${flag}`,
    `   ${command} explain${flag}`,
    "",
    "   Repair the destination and redrive the dead letter:",
    "",
    `   curl ${flakyUrl}/repair`,
    `   ${command} dlq redrive${flag}`,
    "",
    `2. Open the web pages: ${url}/ui/ shows the tasks, ${url}/ui/simulator simulates policies, ${url}/docs describes the API.`,
    "",
    "3. Retry in your own process: write this to a file in this folder, such as try.mjs, and run it:",
    "",
    '   import { retry } from "redrive";',
    "   const load = async () => {",
    `     const response = await fetch("${flakyUrl}/orders");`,
    "     if (response.ok) return response.json();",
    '     throw Object.assign(new Error("refused"), { status: response.status });',
    "   };",
    "   console.log(await retry(load));",
    "",
  ];
}

// Dev pages: the extra pages of `redrive dev`, by path. The service's HTTP server serves them and
// applies its usual request checks.

interface PageResponse {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const SAFE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
};

export const PAGES: Readonly<Record<string, () => PageResponse>> = {
  "/policies.json": () =>
    ok("application/json", `${JSON.stringify({ policies: presetSchedules() })}\n`),
};

/** Adds the pages to the HTTP server. They need no API key. */
function addPages(app: App): void {
  // `hide` belongs to the OpenAPI plugin, so fastify's own types do not include it.
  const options = { config: { scope: "public" } as const, schema: { hide: true } as object };
  for (const [path, respond] of Object.entries(PAGES)) {
    app.get(path, options, async (_, reply) => {
      const { headers, body } = respond();
      return reply.headers(headers).send(body);
    });
  }
}

function ok(type: string, body: string): PageResponse {
  return { headers: { ...SAFE_HEADERS, "content-type": `${type}; charset=utf-8` }, body };
}

/** Longer schedules are cut off: the first waits show the shape. */
const MAX_WAITS_SHOWN = 12;

interface PresetSchedule {
  readonly name: string;
  readonly description: string;
  readonly maxAttempts: number;
  readonly jitterType: string;
  /** The maximum wait after attempt 1, 2, 3, ... Jitter picks the actual wait below it. */
  readonly ceilingsMs: readonly number[];
  readonly document: PolicyDocument;
}

function presetSchedules(): readonly PresetSchedule[] {
  return Object.entries(presets).map(([name, document]) => schedule(name, document));
}

function schedule(name: string, document: PolicyDocument): PresetSchedule {
  const policy = resolvePolicy(document);
  const kernel = compilePolicy(policy);
  const waits = Math.min(policy.maxAttempts - 1, MAX_WAITS_SHOWN);
  return {
    name,
    description: policy.description ?? "",
    maxAttempts: policy.maxAttempts,
    jitterType: policy.jitterType,
    ceilingsMs: Array.from({ length: waits }, (_, index) => kernel.ceilingMs(index + 1)),
    document,
  };
}
