/** Reply: what a Redis server answers. Texts are bytes, because bodies are. */
export type Reply = null | number | Buffer | readonly Reply[];

/** An argument of a command. */
export type Arg = string | number | Buffer;

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
