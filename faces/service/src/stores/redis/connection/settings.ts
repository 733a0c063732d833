/**
 * Settings: the settings of a Redis server that decide whether it keeps what it acknowledges. The
 * defaults of Redis do not: without a log, a crash loses everything since the last snapshot.
 */
import { RedriveError } from "@redrive/core";
import type { Redis } from "ioredis";
import { type Link, openLink } from "./link.ts";
import { parseRedisUrl, type RedisTarget } from "./redis-url.ts";

interface ServerSettings {
  /** host:port */
  readonly address: string;
  readonly version: string;
  readonly isMaster: boolean;
  readonly isCluster: boolean;
  readonly replicas: number;
  /** Null: the server does not tell its configuration. */
  readonly config: ServerConfig | null;
}

interface ServerConfig {
  readonly appendonly: string;
  readonly appendfsync: string;
  readonly noAppendfsyncOnRewrite: string;
  readonly maxmemoryPolicy: string;
}

const OLDEST_VERSION = [6, 2] as const;

/** Throws `INVALID_ARGUMENT` for the first setting that could lose acknowledged tasks. */
export async function checkSettings(link: Link, target: RedisTarget): Promise<void> {
  const servers = await Promise.all(link.masters().map(readSettings));
  const problems = servers.flatMap((server) => problemsOf(server, target));
  const [first] = problems;
  if (first !== undefined) throw new RedriveError("INVALID_ARGUMENT", first);
}

async function readSettings(server: Redis): Promise<ServerSettings> {
  const info = await server.info();
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, "mu").exec(info)?.[1] ?? "";
  const { host, port } = server.options;
  return {
    address: `${server.stream?.remoteAddress ?? host}:${server.stream?.remotePort ?? port}`,
    version: field("redis_version"),
    isMaster: field("role") === "master",
    isCluster: field("cluster_enabled") === "1",
    replicas: Number(field("connected_slaves")),
    config: await readConfig(server),
  };
}

/** Managed servers often forbid the command. */
async function readConfig(server: Redis): Promise<ServerConfig | null> {
  try {
    const get = async (name: string) => {
      const [, value = ""] = (await server.config("GET", name)) as string[];
      return value;
    };
    return {
      appendonly: await get("appendonly"),
      appendfsync: await get("appendfsync"),
      noAppendfsyncOnRewrite: await get("no-appendfsync-on-rewrite"),
      maxmemoryPolicy: await get("maxmemory-policy"),
    };
  } catch (error) {
    if (error instanceof Error && /^(ERR unknown|NOPERM)/u.test(error.message)) return null;
    throw error;
  }
}

/** What must change before the server can hold a store. Each names the setting and the repair. */
function problemsOf(server: ServerSettings, target: RedisTarget): readonly string[] {
  const { address, version, config } = server;
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const isOld =
    major < OLDEST_VERSION[0] || (major === OLDEST_VERSION[0] && minor < OLDEST_VERSION[1]);
  const found: (string | false)[] = [
    isOld && `has the version ${version}, but 6.2 or newer is needed`,
    !server.isMaster && "is a replica: use the address of its master, or redis+sentinel://",
    server.isCluster && target.kind !== "cluster" && "is part of a cluster: use redis+cluster://",
    !server.isCluster && target.kind === "cluster" && "is not part of a cluster: use redis://",
  ];
  if (target.settings === "checked") found.push(...configProblems(config, target));
  return found
    .filter((problem) => problem !== false)
    .map((problem) => `the Redis server ${address} ${problem}`);
}

function configProblems(config: ServerConfig | null, { durability }: RedisTarget) {
  if (config === null) {
    const check =
      "check that appendonly is yes, appendfsync is always, no-appendfsync-on-rewrite is no and maxmemory-policy is noeviction";
    return [`does not tell its configuration: ${check}, then add settings=trusted to the URL`];
  }
  const { appendonly, appendfsync, noAppendfsyncOnRewrite, maxmemoryPolicy } = config;
  const isSynced =
    appendfsync === "always" || (appendfsync === "everysec" && durability === "relaxed");
  const relaxed =
    appendfsync === "everysec" ? ", or accept the loss of a second with durability=relaxed" : "";
  return [
    appendonly !== "yes" &&
      `has appendonly ${appendonly}, so a crash loses tasks: run CONFIG SET appendonly yes`,
    !isSynced &&
      `has appendfsync ${appendfsync}, so a power loss loses tasks: run CONFIG SET appendfsync always${relaxed}`,
    noAppendfsyncOnRewrite === "yes" &&
      durability !== "relaxed" &&
      "has no-appendfsync-on-rewrite yes, so a power loss while it rewrites its log loses tasks: run CONFIG SET no-appendfsync-on-rewrite no, or accept the loss with durability=relaxed",
    maxmemoryPolicy !== "noeviction" &&
      `has maxmemory-policy ${maxmemoryPolicy}, so it may delete tasks: run CONFIG SET maxmemory-policy noeviction`,
  ];
}

// Inspect: what an operator must know of the servers of a Redis store, for `redrive doctor`.

export interface RedisReport {
  /** All masters. */
  readonly servers: readonly ServerSettings[];
  /** Why the store cannot be opened. */
  readonly problems: readonly string[];
  readonly durability: RedisTarget["durability"];
  readonly replicas: number;
}

/** Rejects if there is no connection. Changes nothing. */
export async function inspectRedis(url: string): Promise<RedisReport> {
  const target = parseRedisUrl(url);
  const link = await openLink(target);
  try {
    const servers = await Promise.all(link.masters().map(readSettings));
    const problems = servers.flatMap((server) => problemsOf(server, target));
    const { durability, replicas } = target;
    return { servers, problems, durability, replicas };
  } finally {
    link.close();
  }
}
