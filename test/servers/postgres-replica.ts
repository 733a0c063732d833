/**
 * Postgres replica: a PostgreSQL server with a synchronous replica, behind one address that moves to
 * the replica in a failover.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { freePort } from "./free-port.ts";
import { guardedFolder, startGuarded } from "./guarded.ts";
import { postgresBinaries, postgresUser } from "./postgres-binaries.ts";
import { TcpProxy } from "./tcp-proxy.ts";

const POLL_MS = 20;
const TIMEOUT_MS = 60_000;

export interface ReplicatedPostgres {
  /** The address that follows the primary server. */
  readonly url: string;
  /** Kills the primary server, promotes the replica, and moves the address to it. */
  failOver(): Promise<void>;
  stop(): Promise<void>;
}

/** Resolves when every commit waits for the replica. */
export async function startReplicated(): Promise<ReplicatedPostgres> {
  const user = postgresUser();
  const folder = guardedFolder("postgres-replica", user);
  const guard = startGuarded({ folder, stopSignal: "SIGQUIT" });
  const binaries = postgresBinaries(folder);
  const asUser = { ...user, cwd: folder, stdio: "ignore" } as const;
  const [first, second] = [join(folder, "first"), join(folder, "second")];
  const init = [`--pgdata=${first}`, "--username=postgres", "--auth=trust", "--encoding=UTF8"];
  execFileSync(join(binaries, "initdb"), [...init, "--no-locale", "--no-sync"], asUser);
  // A copy of a server that has never run is a backup without a log.
  execFileSync("cp", ["-a", first, second], asUser);
  const [port, replicaPort] = [await freePort(), await freePort()];
  const start = async (data: string, at: number): Promise<ChildProcess> => {
    const settings = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="];
    const child = spawn(join(binaries, "postgres"), ["-D", data, "-p", String(at), ...settings], {
      ...asUser,
    });
    await once(child, "spawn");
    guard.watch(child.pid ?? Number.NaN);
    await until("the server responds", () => ask(at, "SELECT 1"));
    return child;
  };
  const primary = await start(first, port);
  const source = `primary_conninfo = 'host=127.0.0.1 port=${port} user=postgres'\n`;
  appendFileSync(join(second, "postgresql.auto.conf"), source);
  writeFileSync(join(second, "standby.signal"), "");
  await start(second, replicaPort);
  await ask(port, "ALTER SYSTEM SET synchronous_standby_names = '*'");
  await ask(port, "SELECT pg_reload_conf()");
  const SYNC = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
  await until("commits wait for the replica", async () => (await ask(port, SYNC)).length > 0);
  const address = new TcpProxy(port);
  await address.listen();
  return {
    url: `postgres://postgres@127.0.0.1:${address.port}/postgres`,
    async failOver() {
      const ended = once(primary, "exit");
      primary.kill("SIGQUIT");
      await ended;
      await ask(replicaPort, "SELECT pg_promote()");
      address.state = "refused";
      address.targetPort = replicaPort;
      address.state = "open";
    },
    async stop() {
      address.close();
      await guard.stop();
    },
  };
}

async function ask(port: number, sql: string): Promise<readonly unknown[]> {
  const connectionString = `postgres://postgres@127.0.0.1:${port}/postgres`;
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 2000 });
  client.on("error", () => {});
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

/** Repeats until the check resolves to neither false nor an error. */
async function until(what: string, check: () => Promise<unknown>): Promise<void> {
  const endMs = performance.now() + TIMEOUT_MS;
  for (;;) {
    const isTrue = await check().then(
      (value) => value !== false,
      () => false,
    );
    if (isTrue) return;
    if (performance.now() > endMs) throw new Error(`not within ${TIMEOUT_MS} ms: ${what}`);
    await sleep(POLL_MS);
  }
}
