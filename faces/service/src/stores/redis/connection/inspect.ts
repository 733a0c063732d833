/** Inspect: what an operator must know of the servers of a Redis store, for `redrive doctor`. */
import { openLink } from "./link.ts";
import { parseRedisUrl, type RedisTarget } from "./redis-url.ts";
import { problemsOf, readSettings, type ServerSettings } from "./settings.ts";

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
