/**
 * Redis servers for tests: single ones, a cluster of three masters, and a master with a replica and a
 * Sentinel. Each server runs in a temporary folder on a free port. `tools/guard.mjs` ends the servers
 * and removes the folders, also if the test is killed.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";

const GUARD = fileURLToPath(new URL("../../../../../tools/guard.mjs", import.meta.url));
const POLL_MS = 20;
const LONG_MS = 60_000;
const ALL_SLOTS = 16_384;

/** The settings that a store requires. */
const DURABLE = {
  bind: "127.0.0.1",
  appendonly: "yes",
  appendfsync: "always",
  save: "",
  "maxmemory-policy": "noeviction",
  "repl-diskless-sync-delay": "0",
} as const;

export interface RedisServer {
  readonly port: number;
  readonly url: string;
  signal(name: NodeJS.Signals): void;
  /** Kills the server and starts it again with the same files. */
  restart(): Promise<void>;
  /** Sends a command on a connection of its own. */
  command(name: string, ...args: readonly string[]): Promise<unknown>;
  stop(): Promise<void>;
}

let guard: ChildProcess | undefined;
let root = "";
let folders = 0;

/** Starts the guard of this process, once. */
function guardedFolder(): string {
  if (guard === undefined) {
    root = mkdtempSync(join(tmpdir(), "redrive-redis-"));
    const spec = JSON.stringify({ folder: root, stopSignal: "SIGKILL" });
    guard = spawn(process.execPath, [GUARD, spec], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    guard.unref();
    (guard.stdin as unknown as { unref?: () => void }).unref?.();
  }
  const folder = join(root, String(++folders));
  mkdirSync(folder);
  return folder;
}

function watch(pid: number): void {
  guard?.stdin?.write(`${pid}\n`);
}

/** `settings` may add to the durable ones, or replace them. */
export async function startRedis(
  settings: Readonly<Record<string, string>> = {},
): Promise<RedisServer> {
  const folder = guardedFolder();
  const port = await freePort();
  const all = { ...DURABLE, ...settings, port: String(port), dir: folder };
  const args = Object.entries(all).flatMap(([name, value]) => [`--${name}`, value]);
  return startServer(port, args);
}

async function startServer(port: number, args: readonly string[]): Promise<RedisServer> {
  let child = await launch(port, args);
  const end = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const closed = once(child, "exit");
    child.kill("SIGKILL");
    await closed;
  };
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    signal: (name) => child.kill(name),
    async restart() {
      await end();
      child = await launch(port, args);
    },
    command: (name, ...rest) => command(port, name, ...rest),
    stop: end,
  };
}

async function launch(port: number, args: readonly string[]): Promise<ChildProcess> {
  const child = spawn("redis-server", [...args], { stdio: ["ignore", "ignore", "ignore"] });
  child.unref();
  if (child.pid === undefined) throw new Error("redis-server is missing");
  watch(child.pid);
  await eventually("the server accepts connections", async () => {
    if (child.exitCode !== null) throw new Error(`redis-server ended: ${args.join(" ")}`);
    return (await command(port, "ping").catch(() => "")) === "PONG";
  });
  return child;
}

async function command(port: number, name: string, ...args: readonly string[]): Promise<unknown> {
  const client = new Redis({
    ...{ host: "127.0.0.1", port, retryStrategy: () => null, maxRetriesPerRequest: 0 },
    ...{ lazyConnect: true, enableReadyCheck: false, protocol: 2 },
  });
  client.on("error", () => {});
  try {
    await client.connect();
    return await client.call(name, ...args);
  } finally {
    client.disconnect();
  }
}

/** A server that has just started may close a connection. */
const isClosed = (error: unknown) =>
  error instanceof Error && error.message === "Connection is closed.";

/** Repeats until it is true. Throws after a minute, with `state` in the message. */
export async function eventually(
  what: string,
  check: () => Promise<boolean>,
  state?: () => Promise<string>,
): Promise<void> {
  const endMs = performance.now() + LONG_MS;
  const isTrue = () =>
    check().catch((error: unknown) => {
      if (isClosed(error)) return false;
      throw error;
    });
  while (!(await isTrue())) {
    if (performance.now() > endMs) {
      const found = state === undefined ? "" : ` (${await state()})`;
      throw new Error(`not within a minute: ${what}${found}`);
    }
    await sleep(POLL_MS);
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("there is no free port");
  return address.port;
}

export interface ServerGroup {
  readonly url: string;
  readonly servers: readonly RedisServer[];
  stop(): Promise<void>;
}

/** A cluster of three masters without replicas. `settings` as in `startRedis`. */
export async function startCluster(
  settings: Readonly<Record<string, string>> = {},
): Promise<ServerGroup> {
  const servers = await Promise.all(
    [0, 1, 2].map(async () => {
      const bus = { "cluster-enabled": "yes", "cluster-port": String(await freePort()) };
      return startRedis({ ...settings, ...bus });
    }),
  );
  const [first] = servers;
  if (first === undefined) throw new Error("no server was started");
  for (const [at, server] of servers.entries()) {
    const from = Math.floor((at * ALL_SLOTS) / 3);
    const to = Math.floor(((at + 1) * ALL_SLOTS) / 3) - 1;
    await server.command("cluster", "addslotsrange", String(from), String(to));
  }
  const bus = await Promise.all(
    servers.map((server) => server.command("config", "get", "cluster-port")),
  );
  for (const [at, server] of servers.entries()) {
    if (at === 0) continue;
    const [, port] = bus[at] as string[];
    await first.command("cluster", "meet", "127.0.0.1", String(server.port), String(port));
  }
  await eventually("the cluster is ready", async () => {
    const infos = await Promise.all(servers.map((server) => server.command("cluster", "info")));
    return infos.every((info) => /cluster_state:ok.*cluster_known_nodes:3/su.test(String(info)));
  });
  const hosts = servers.map(({ port }) => `127.0.0.1:${port}`).join(",");
  return groupOf(`redis+cluster://${hosts}`, servers);
}

/** A master, a replica and a Sentinel that makes the replica the master when the master is gone. */
export async function startSentinel(): Promise<ServerGroup> {
  const master = await startRedis();
  const replica = await startRedis({ replicaof: `127.0.0.1 ${master.port}` });
  await eventually("the replica is connected", async () =>
    String(await master.command("info", "replication")).includes("connected_slaves:1"),
  );
  await eventually("the replica has all data", async () =>
    String(await replica.command("info", "replication")).includes("master_link_status:up"),
  );
  const port = await freePort();
  const folder = guardedFolder();
  const file = join(folder, "sentinel.conf");
  const lines = [
    `port ${port}`,
    "bind 127.0.0.1",
    `dir ${folder}`,
    `sentinel monitor tasks 127.0.0.1 ${master.port} 1`,
    // Longer than a busy disk stops a server, or a healthy master is replaced.
    "sentinel down-after-milliseconds tasks 2000",
    "sentinel failover-timeout tasks 2000",
  ];
  writeFileSync(file, `${lines.join("\n")}\n`);
  const sentinel = await startServer(port, [file, "--sentinel"]);
  await eventually("the Sentinel knows the replica", async () => {
    const replicas = (await sentinel.command("sentinel", "replicas", "tasks")) as unknown[];
    return replicas.length === 1;
  });
  return groupOf(`redis+sentinel://127.0.0.1:${port}/tasks`, [master, replica, sentinel]);
}

function groupOf(url: string, servers: readonly RedisServer[]): ServerGroup {
  const stop = async () => {
    await Promise.all(servers.map((server) => server.stop()));
  };
  return { url, servers, stop };
}
