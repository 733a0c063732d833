/**
 * Redis client: the caller's own client, ioredis or node-redis, behind one function that sends a
 * command. The library imports neither.
 */
import { invalidArgument } from "@redrive/core";

/** A client of ioredis, version 5 or later. */
export interface IoRedisClient {
  call(command: string, ...args: string[]): Promise<unknown>;
  duplicate(): IoRedisClient;
  disconnect(): void;
  on(event: "error", listener: (error: Error) => void): unknown;
}

/** A client of node-redis, version 4 or later. */
export interface NodeRedisClient {
  sendCommand(args: string[]): Promise<unknown>;
  duplicate(): NodeRedisClient;
  connect(): Promise<unknown>;
  destroy?(): void;
  disconnect?(): Promise<unknown>;
  on(event: "error", listener: (error: Error) => void): unknown;
}

export type RedisClient = IoRedisClient | NodeRedisClient;

export interface RedisConnection {
  send(command: string, ...args: readonly (string | number)[]): Promise<unknown>;
  /** A connection of its own, for commands that block. */
  duplicate(): Promise<RedisConnection>;
  /** Only for a duplicate; the other connection is the caller's. */
  close(): void;
}

export function connectionOf(client: RedisClient): RedisConnection {
  if ("call" in client && typeof client.call === "function") return ioRedis(client);
  if ("sendCommand" in client && typeof client.sendCommand === "function") return nodeRedis(client);
  throw invalidArgument("client must be a client of ioredis or node-redis", client);
}

function ioRedis(client: IoRedisClient): RedisConnection {
  return {
    send: (command, ...args) => client.call(command, ...args.map(String)),
    duplicate: async () => ioRedis(quiet(client.duplicate())),
    close: () => client.disconnect(),
  };
}

function nodeRedis(client: NodeRedisClient): RedisConnection {
  return {
    send: (command, ...args) => client.sendCommand([command, ...args.map(String)]),
    async duplicate() {
      const copy = quiet(client.duplicate());
      await copy.connect();
      return nodeRedis(copy);
    },
    close: () => {
      // Version 5 has `destroy`; the `disconnect` of version 4 may reject.
      if (client.destroy !== undefined) client.destroy();
      else client.disconnect?.().catch(() => undefined);
    },
  };
}

/** The worker learns of errors from its commands. Without a listener, the event would end the process. */
function quiet<Client extends RedisClient>(client: Client): Client {
  client.on("error", () => undefined);
  return client;
}
