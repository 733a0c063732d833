/**
 * Restartable: a real PostgreSQL, Redis or RabbitMQ server that a test crashes, hangs and starts again
 * with the same files and the same port. A guard ends the server and removes its files, however the
 * test ends.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { kill } from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import pg from "pg";
import { programFor } from "../../tools/needs.mjs";
import { freePort } from "./free-port.ts";
import { type Guarded, guardedFolder, startGuarded } from "./guarded.ts";
import { postgresBinaries, postgresUser } from "./postgres-binaries.ts";
import { redisArgs } from "./redis.ts";

const POLL_MS = 20;
/** RabbitMQ takes half a minute on a busy machine. */
const START_TIMEOUT_MS = 150_000;

export interface RestartableServer {
  readonly kind: "postgres" | "redis";
  /** The URL of an empty store that no other test uses. */
  nextUrl(): string;
  /** Ends the server at once, without a checkpoint or a goodbye. */
  crash(): Promise<void>;
  /** Starts it with its old files. Resolves when it executes commands. */
  start(): Promise<void>;
  /** Stops all of its processes where they are (SIGSTOP), so that connections stay open. */
  hang(): void;
  /** Continues them. */
  resume(): void;
  stop(): Promise<void>;
}

export interface Program<Kind extends string = string> {
  readonly kind: Kind;
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  readonly user?: { readonly uid: number; readonly gid: number } | undefined;
  readonly crashSignal: NodeJS.Signals;
  /** Rejects until the server executes commands. */
  readonly ping: () => Promise<unknown>;
  readonly urlOf: (number: number) => string;
}

export async function startRestartable(kind: "postgres" | "redis"): Promise<RestartableServer> {
  const user = kind === "postgres" ? postgresUser() : undefined;
  const folder = guardedFolder(`restartable-${kind}`, user);
  const guard = startGuarded({ folder, stopSignal: kind === "postgres" ? "SIGQUIT" : "SIGKILL" });
  const port = await freePort();
  return kind === "postgres"
    ? await startProgram(postgresProgram(folder, port), guard)
    : await startProgram(redisProgram(folder, port), guard);
}

export async function startProgram<Kind extends string>(
  program: Program<Kind>,
  guard: Guarded,
): Promise<Restartable<Kind>> {
  const server = new Restartable(program, guard);
  await server.start();
  return server;
}

/** SIGQUIT is PostgreSQL's immediate shutdown: the next start recovers from the log. */
function postgresProgram(folder: string, port: number): Program<"postgres"> {
  const user = postgresUser();
  const binaries = postgresBinaries(folder);
  const data = join(folder, "data");
  const init = [`--pgdata=${data}`, "--username=postgres", "--auth=trust", "--encoding=UTF8"];
  execFileSync(join(binaries, "initdb"), [...init, "--no-locale", "--no-sync"], {
    ...user,
    cwd: folder,
    stdio: "ignore",
  });
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  const settings = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="];
  return {
    kind: "postgres",
    command: join(binaries, "postgres"),
    args: ["-D", data, "-p", String(port), ...settings],
    user,
    crashSignal: "SIGQUIT",
    ping: () => pingPostgres(url),
    urlOf: (number) => `${url}?schema=fleet_${number}`,
  };
}

async function pingPostgres(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1000 });
  client.on("error", () => {});
  await client.connect();
  await client.end();
}

function redisProgram(folder: string, port: number): Program<"redis"> {
  return {
    kind: "redis",
    command: programFor("redis"),
    args: redisArgs(folder, port),
    crashSignal: "SIGKILL",
    ping: () => pingRedis(port),
    urlOf: (number) => `redis://127.0.0.1:${port}?prefix=fleet-${number}`,
  };
}

/** Fails while the server still loads its file. */
async function pingRedis(port: number): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.destroy();
  const client = new Redis({
    ...{ host: "127.0.0.1", port, retryStrategy: () => null, maxRetriesPerRequest: 0 },
    ...{ lazyConnect: true, enableReadyCheck: false, protocol: 2 },
  });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.ping();
  } finally {
    client.disconnect();
  }
}

export class Restartable<Kind extends string> {
  readonly kind: Kind;
  readonly #program: Program<Kind>;
  readonly #guard: Guarded;
  #child: ChildProcess | undefined;
  #stores = 0;

  constructor(program: Program<Kind>, guard: Guarded) {
    this.kind = program.kind;
    this.#program = program;
    this.#guard = guard;
  }

  nextUrl(): string {
    return this.#program.urlOf(++this.#stores);
  }

  async crash(): Promise<void> {
    const child = this.#running();
    const ended = once(child, "exit");
    child.kill(this.#program.crashSignal);
    await ended;
  }

  async start(): Promise<void> {
    const { command, args, env = process.env, user, ping } = this.#program;
    const child = spawn(command, [...args], { ...user, env, stdio: "ignore" });
    this.#child = child;
    await once(child, "spawn");
    this.#guard.watch(this.#pid());
    const endMs = performance.now() + START_TIMEOUT_MS;
    while (
      !(await ping().then(
        () => true,
        () => false,
      ))
    ) {
      if (child.exitCode !== null) throw new Error(`${command} ended with ${child.exitCode}`);
      if (performance.now() > endMs) throw new Error(`${command} did not start in time`);
      await sleep(POLL_MS);
    }
  }

  hang(): void {
    const pid = this.#pid();
    kill(pid, "SIGSTOP");
    for (const child of childrenOf(pid)) kill(child, "SIGSTOP");
  }

  resume(): void {
    const pid = this.#pid();
    for (const child of childrenOf(pid)) kill(child, "SIGCONT");
    kill(pid, "SIGCONT");
  }

  async stop(): Promise<void> {
    await this.#guard.stop();
  }

  #running(): ChildProcess {
    if (this.#child === undefined) throw new Error("the server was not started");
    return this.#child;
  }

  #pid(): number {
    return this.#running().pid ?? Number.NaN;
  }
}

/** PostgreSQL has a process per connection, each in a process group of its own. */
function childrenOf(pid: number): readonly number[] {
  const list = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return list === "" ? [] : list.split(" ").map(Number);
}
