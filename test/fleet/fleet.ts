/**
 * Fleet: real `redrive serve` processes on one real store, and a target that records what they send.
 * Tests write a claim once and run it on PostgreSQL and on Redis.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { seededRandom } from "@redrive/core";
import { afterAll, beforeAll, describe, onTestFinished } from "vitest";
import { type RestartableServer, startRestartable } from "../servers/restartable.ts";
import { TcpProxy } from "../servers/tcp-proxy.ts";
import { FleetClient } from "./client.ts";
import { type Responder, WireLog } from "./wire-log.ts";

const MAIN = fileURLToPath(new URL("../../apps/cli/bin/redrive.mjs", import.meta.url));
const POLL_MS = 20;

/** How often the longer form repeats a fault. `npm run test:faults` sets it. */
export const ROUNDS: number = Number(process.env["REDRIVE_FAULT_ROUNDS"] ?? 1);

export interface Node {
  readonly process: ChildProcess;
  readonly client: FleetClient;
  /** Its connection to the store, which a test may disturb. */
  readonly network: TcpProxy;
  /** Lines of its log, parsed. */
  readonly log: readonly LogLine[];
}

export interface LogLine {
  readonly msg: string;
  readonly event?: string;
  readonly reason?: string;
  readonly url?: string;
  /** Epoch ms. */
  readonly time: number;
}

export interface Fleet {
  readonly nodes: readonly Node[];
  readonly target: WireLog;
  readonly server: RestartableServer;
  /** Starts one more node on the same store. */
  join(options?: NodeOptions): Promise<Node>;
  /** The node has ended: it is not one of `nodes` any more. */
  remove(node: Node): void;
}

export interface NodeOptions {
  /** Default: that of the service. */
  readonly leaseMs?: number;
  /** Environment variables in addition to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface FleetOptions extends NodeOptions {
  /** Default: 3. */
  readonly nodes?: number;
  /** Default: 200 to every request. */
  readonly respond?: Responder;
}

/** Defines the tests of `define` for each store, each with a server of its own. */
export function describeFleets(
  what: string,
  define: (open: (options?: FleetOptions) => Promise<Fleet>) => void,
): void {
  describe.each(["postgres", "redis"] as const)(`${what} on %s`, (kind) => {
    let server: RestartableServer;
    beforeAll(async () => {
      server = await startRestartable(kind);
    });
    afterAll(() => server.stop());
    define((options) => openFleet(server, options, onTestFinished));
  });
}

/** The tests of `define` share the nodes of a store, because a start takes seconds. */
export function describeSharedFleet(
  what: string,
  define: (open: (respond?: Responder) => Promise<Fleet>) => void,
  options: FleetOptions = {},
): void {
  describe.each(["postgres", "redis"] as const)(`${what} on %s`, (kind) =>
    define(sharedFleet(kind, options)),
  );
}

/**
 * The nodes that the tests of a describe share. Each test has a target of its own, and so a destination
 * of its own.
 */
export function sharedFleet(
  kind: RestartableServer["kind"],
  options: FleetOptions = {},
): (respond?: Responder) => Promise<Fleet> {
  const cleanups: Cleanup[] = [];
  let fleet: Fleet;
  beforeAll(async () => {
    const server = await startRestartable(kind);
    cleanups.push(() => server.stop());
    fleet = await openFleet(server, options, (cleanup) => void cleanups.push(cleanup));
  });
  afterAll(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  });
  return async (respond) => ({ ...fleet, target: await openTarget(respond, onTestFinished) });
}

type Cleanup = () => Promise<void> | void;
type OnEnd = (cleanup: Cleanup) => void;

async function openTarget(respond: Responder | undefined, onEnd: OnEnd): Promise<WireLog> {
  const target = new WireLog(respond);
  await target.listen();
  onEnd(() => target.close());
  return target;
}

async function openFleet(
  server: RestartableServer,
  options: FleetOptions | undefined,
  onEnd: OnEnd,
): Promise<Fleet> {
  const target = await openTarget(options?.respond, onEnd);
  const url = server.nextUrl();
  const nodes: Node[] = [];
  const join = async (own: NodeOptions = options ?? {}) => {
    const node = await startNode(url, own, onEnd);
    nodes.push(node);
    return node;
  };
  const remove = (node: Node) => void nodes.splice(nodes.indexOf(node), 1);
  // The first node creates the schema. The others then start at the same time.
  await join();
  await Promise.all(Array.from({ length: (options?.nodes ?? 3) - 1 }, () => join()));
  return { nodes, target, server, join, remove };
}

async function startNode(
  store: string,
  { leaseMs, env = {} }: NodeOptions,
  onEnd: OnEnd,
): Promise<Node> {
  const { REDRIVE_URL: _, REDRIVE_API_KEY: __, REDRIVE_STORE: ___, ...inherited } = process.env;
  const network = await openNetwork(store, onEnd);
  const address = new URL(store);
  address.port = String(network.port);
  const flags = ["--port", "0", "--retry-budget", "off", "--store", address.href];
  if (leaseMs !== undefined) flags.push("--lease", `${leaseMs}ms`);
  const child = spawn(process.execPath, [MAIN, "serve", ...flags], {
    env: { ...inherited, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onEnd(() => endNode(child));
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text) => {
    stderr += text;
  });
  const log: LogLine[] = [];
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout })
      .on("line", (line) => {
        const entry: LogLine = JSON.parse(line);
        log.push(entry);
        if (entry.msg.startsWith("Redrive is ready at ")) resolve(entry.url ?? "");
      })
      .on("close", () => reject(new Error(`the node ended before it was ready: ${stderr}`)));
  });
  return { process: child, client: new FleetClient(url), network, log };
}

async function openNetwork(store: string, onEnd: OnEnd): Promise<TcpProxy> {
  const random = seededRandom("network");
  const network = new TcpProxy(Number(new URL(store).port), () => random.next());
  await network.listen();
  onEnd(() => network.close());
  return network;
}

async function endNode(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

/** Kills a node with `kill -9`. Resolves to the instant when it was dead. */
export async function killNode(node: Node): Promise<number> {
  await endNode(node.process);
  return Date.now();
}

/** Waits until the check is true. Throws with `what` after `ms`. Returns how long it took. */
export async function until(
  what: string,
  ms: number,
  check: () => boolean | Promise<boolean>,
): Promise<number> {
  const startMs = performance.now();
  while (!(await check())) {
    if (performance.now() - startMs > ms) throw new Error(`not within ${ms} ms: ${what}`);
    await sleep(POLL_MS);
  }
  return performance.now() - startMs;
}
