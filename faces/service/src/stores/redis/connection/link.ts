/**
 * Link: the connections of a store to its Redis server, Sentinel group or cluster. A command is sent
 * once: a command that was cut off is never repeated, because it may have been done. Without a
 * connection, commands fail at once; the connection returns by itself.
 */
import { systemClock, systemRandom } from "@redrive/core";
import type { Cluster, Redis } from "ioredis";
import { StoreFullError } from "../../../model/store-errors.ts";
import type { Script } from "../scripts/script.ts";
import type { RedisTarget } from "./redis-url.ts";

/** A call of a store takes at most five seconds, and some need two commands in turn. */
const COMMAND_MS = 4000;
/** A server that sends nothing for this long, although a reply is due, is gone. */
const SILENCE_MS = 3500;
const CONNECT_MS = 2000;
const OPEN_MS = 4000;
/** How long a write waits for its replicas. */
const REPLICAS_MS = 2000;
const MAX_RETRY_MS = 1000;

export interface Link {
  /** True if each key may be on another server, so that a script has the keys of one partition. */
  readonly isCluster: boolean;
  /** The script gets the given keys, which begin the names of others, and one more. */
  run(script: Script, keys: readonly string[], args: readonly Arg[]): Promise<Reply>;
  /** The first argument is the key. */
  call(command: string, key: string, ...args: readonly Arg[]): Promise<Reply>;
  publish(channel: string, message: Buffer): Promise<void>;
  /** Runs a write and waits until the wanted number of replicas has it. */
  replicated<Result>(write: () => Promise<Result>): Promise<Result>;
  /** One connection to each master. */
  masters(): readonly Redis[];
  /** A new connection that only receives messages. It does not reconnect. */
  openReceiver(): Redis;
  close(): void;
}

/** Waits longer after each failure, and never the same time as other nodes. */
export function retryDelayMs(failures: number): number {
  const ceiling = Math.min(MAX_RETRY_MS, 50 * 2 ** Math.min(failures, 10));
  return Math.round(ceiling * (0.5 + systemRandom.next() / 2));
}

/** Rejects if no connection can be made. Loads the driver only when it is needed. */
export async function openLink(target: RedisTarget): Promise<Link> {
  const driver = await import("ioredis");
  const openReceiver = receiverOf(driver.Redis, target);
  if (target.kind === "cluster") {
    const cluster = new driver.Cluster([...target.hosts], clusterOptions(target));
    await connected(cluster);
    return linkOf(cluster, target, () => openReceiver(cluster.nodes("master")));
  }
  const redis = new driver.Redis({ ...serverOptions(target), ...RECONNECTING });
  await connected(redis);
  return linkOf(redis, target, () => openReceiver([]));
}

function commonOptions({ username, password, isTls }: RedisTarget) {
  return {
    lazyConnect: true,
    protocol: 2 as const,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: CONNECT_MS,
    commandTimeout: COMMAND_MS,
    socketTimeout: SILENCE_MS,
    keepAlive: 5000,
    // A master that has become a replica: the connection must find the new master.
    reconnectOnError: (error: Error) => error.message.startsWith("READONLY"),
    ...(username !== null && { username }),
    ...(password !== null && { password }),
    ...(isTls && { tls: {} }),
  };
}

const RECONNECTING = { enableOfflineQueue: false, retryStrategy: retryDelayMs } as const;

function serverOptions(target: RedisTarget) {
  const { kind, hosts, master, db, isTls } = target;
  const [first] = hosts;
  const place =
    kind === "sentinel"
      ? {
          sentinels: [...hosts],
          name: master ?? "",
          sentinelRetryStrategy: retryDelayMs,
          sentinelCommandTimeout: CONNECT_MS,
          failoverDetector: true,
          ...(isTls && { enableTLSForSentinelMode: true, sentinelTLS: {} }),
        }
      : { ...first };
  return { ...commonOptions(target), ...place, db };
}

function clusterOptions(target: RedisTarget) {
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    clusterRetryStrategy: retryDelayMs,
    clusterNodeRetryStrategy: retryDelayMs,
    // 0: a command whose connection was closed is not repeated.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    slotsRefreshTimeout: CONNECT_MS,
    slotsRefreshInterval: 5000,
    redisOptions: commonOptions(target),
  };
}

/** Subscriptions need their own connection. In a cluster, every node has all messages. */
function receiverOf(Client: typeof Redis, target: RedisTarget): (nodes: readonly Redis[]) => Redis {
  const { socketTimeout: _, ...options } = serverOptions(target);
  return (nodes) => {
    const at = Math.floor(systemRandom.next() * nodes.length);
    const { host, port } = nodes[at]?.options ?? {};
    const place = host !== undefined && port !== undefined ? { host, port } : {};
    return new Client({ ...options, ...place, retryStrategy: () => null });
  };
}

/** Rejects with the latest error. Without the limit, a client would try forever. */
async function connected(client: Redis | Cluster): Promise<void> {
  let cause: unknown;
  client.on("error", (error: unknown) => {
    cause = error;
  });
  const cancel = systemClock.alarm(OPEN_MS, () => client.disconnect());
  try {
    await client.connect();
  } catch (error) {
    client.disconnect();
    throw cause instanceof Error ? cause : error;
  } finally {
    cancel();
  }
}

function linkOf(client: Redis | Cluster, target: RedisTarget, openReceiver: () => Redis): Link {
  const send = (command: string, args: readonly Arg[]) =>
    client.callBuffer(command, ...args) as Promise<Reply>;
  const masters = () =>
    client.isCluster ? (client as Cluster).nodes("master") : [client as Redis];
  const closes = countCloses(client);
  return {
    isCluster: client.isCluster,
    async run(script, keys, args) {
      // While a cluster moves a slot, it runs no script with a key that exists and one that does not.
      // Without this key, a script could run although some of its other keys are already moved.
      const guard = `${keys[0]}:m`;
      const rest = [keys.length + 1, ...keys, guard, ...args];
      try {
        return await send("evalsha", [script.sha, ...rest]);
      } catch (error) {
        // The server has restarted, or another one has taken over.
        if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
        return send("eval", [script.text, ...rest]);
      }
    },
    call: (command, key, ...args) => send(command, [key, ...args]),
    async publish(channel, message) {
      await send("publish", [channel, message]);
    },
    async replicated(write) {
      if (target.replicas === 0) return write();
      const before = closes();
      const result = await write();
      await Promise.all(masters().map((master) => waitForReplicas(master, target.replicas)));
      // A new connection has no writes to wait for, so its answer says nothing.
      if (closes() === before) return result;
      throw new Error("the connection was lost before the replicas had the write");
    },
    masters,
    openReceiver,
    close: () => client.disconnect(),
  };
}

async function waitForReplicas(master: Redis, replicas: number): Promise<void> {
  const count = await master.wait(replicas, REPLICAS_MS);
  if (count >= replicas) return;
  throw new Error(
    `only ${count} of ${replicas} replicas have the write after ${REPLICAS_MS} ms: it may be lost`,
  );
}

/** How many connections were closed so far. */
function countCloses(client: Redis | Cluster): () => number {
  let closes = 0;
  const count = (one: Redis) => one.on("close", () => closes++);
  if (client.isCluster) {
    for (const node of (client as Cluster).nodes()) count(node);
    client.on("+node", count);
  } else count(client as Redis);
  return () => closes;
}

// Reply: what a Redis server answers. Texts are bytes, because bodies are.

export type Reply = null | number | Buffer | readonly Reply[];

/** An argument of a command. */
type Arg = string | number | Buffer;

export function listOf(reply: Reply): readonly Reply[] {
  if (Array.isArray(reply)) return reply;
  throw new Error("the Redis server did not answer with a list");
}

export function bytesOf(reply: Reply | undefined): Buffer {
  if (Buffer.isBuffer(reply)) return reply;
  throw new Error("the Redis server did not answer with bytes");
}

export function textOf(reply: Reply | undefined): string {
  return bytesOf(reply).toString();
}

export function bytesOrNull(reply: Reply | undefined): Buffer | null {
  return Buffer.isBuffer(reply) ? reply : null;
}

// Failure: which errors of Redis say that nothing was done because there is no space. All others
// leave open what was done.

/**
 * OOM: the memory limit is reached. MISCONF: the log cannot be written, mostly because the disk is
 * full. The server refuses both before the first write of a script.
 */
function isFull(error: unknown): boolean {
  return (
    error instanceof Error &&
    /^(?:ERR )?(?:OOM|MISCONF)\b|: -?(?:OOM|MISCONF) /u.test(error.message)
  );
}

/**
 * Waits for all parts of a write, so that a later call does not overtake one of them, and then throws
 * the first error. `mayHaveWritten`: an earlier part of the same write was done.
 */
export async function allDone<Result>(
  parts: readonly Promise<Result>[],
  mayHaveWritten = false,
): Promise<readonly Result[]> {
  const results = await Promise.allSettled(parts);
  const errors = results.flatMap((one) =>
    one.status === "rejected" ? [one.reason as unknown] : [],
  );
  if (errors.length === 0) {
    return results.map((one) => (one as PromiseFulfilledResult<Result>).value);
  }
  const [first] = errors;
  const isNothingDone = !mayHaveWritten && errors.length === parts.length && errors.every(isFull);
  if (!isNothingDone || !(first instanceof Error)) throw first;
  throw new StoreFullError(first.message, { cause: first });
}
