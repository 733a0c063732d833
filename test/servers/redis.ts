/**
 * Redis: starts the system's redis-server on a free port, with the durability that Redrive
 * requires: append-only file on, synced at every write, nothing evicted.
 */
import { programFor } from "../../tools/needs.mjs";
import { onFreePort } from "./free-port.ts";
import { guardedFolder, startGuarded } from "./guarded.ts";

export interface RedisServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** `settings` replace the ones below. */
export async function startRedis(
  settings: Readonly<Record<string, string>> = {},
): Promise<RedisServer> {
  const program = programFor("redis");
  return await onFreePort(async (port) => {
    const folder = guardedFolder("redis");
    const server = startGuarded({ folder, program, args: redisArgs(folder, port, settings) });
    await server.waitFor(/Ready to accept connections/u);
    return { url: `redis://127.0.0.1:${port}`, stop: server.stop };
  });
}

export function redisArgs(
  folder: string,
  port: number,
  others: Readonly<Record<string, string>> = {},
): string[] {
  const settings = {
    bind: "127.0.0.1",
    port: String(port),
    dir: folder,
    appendonly: "yes",
    appendfsync: "always",
    save: "",
    "maxmemory-policy": "noeviction",
    daemonize: "no",
    ...others,
  };
  return Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
}
