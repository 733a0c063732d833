/**
 * Redis store: idempotency keys in Redis, one hash per key. It uses the caller's own client, of
 * `ioredis` or `redis` (node-redis), and imports no driver. Leases are measured with the server's
 * clock, and the server removes expired keys.
 */
import { invalidArgument, type TimeSource } from "@redrive/core";
import { base64Of, bytesOfBase64 } from "../http/base64.ts";
import {
  assertClaim,
  assertLease,
  assertSettlement,
  type Claim,
  type ClaimResult,
  type IdempotencyStore,
  type Settlement,
} from "./idempotency-store.ts";

/** A client or cluster of `ioredis`. */
export interface IoredisClient {
  evalsha(sha: string, keyCount: number, ...values: string[]): Promise<unknown>;
  eval(script: string, keyCount: number, ...values: string[]): Promise<unknown>;
}

/** A client or cluster of `redis`. */
export interface NodeRedisClient {
  evalSha(sha: string, values: ScriptValues): Promise<unknown>;
  eval(script: string, values: ScriptValues): Promise<unknown>;
}

export interface ScriptValues {
  keys: string[];
  arguments: string[];
}

export interface RedisStoreOptions {
  /** Begins the name of every key in Redis. Default: `redrive:idempotency:`. */
  readonly prefix?: string | undefined;
  /** For tests. Default: the clock of the server. */
  readonly clock?: Pick<TimeSource, "now"> | undefined;
}

export function redisStore(
  client: IoredisClient | NodeRedisClient,
  options: RedisStoreOptions = {},
): IdempotencyStore {
  return new RedisStore(client, options);
}

type Run = (script: string, isHash: boolean, key: string, values: string[]) => Promise<unknown>;

class RedisStore implements IdempotencyStore {
  readonly #run: Run;
  readonly #prefix: string;
  readonly #clock: Pick<TimeSource, "now"> | undefined;
  /** SHA-1 of each script: the server knows scripts by it. */
  readonly #hashes = new Map<string, string>();

  constructor(client: IoredisClient | NodeRedisClient, options: RedisStoreOptions) {
    this.#run = runnerOf(client);
    this.#prefix = options.prefix ?? "redrive:idempotency:";
    this.#clock = options.clock;
  }

  async claim(key: string, claim: Claim): Promise<ClaimResult> {
    assertClaim(key, claim);
    const { fingerprint, owner, leaseMs, retentionMs } = claim;
    const values = [fingerprint, owner, `${leaseMs}`, `${retentionMs}`];
    const reply = (await this.#call(CLAIM, key, values)) as readonly string[];
    const [kind, first = "", second = ""] = reply;
    if (kind === "claimed") return { kind, takeovers: Number(first) };
    if (kind === "running") return { kind, fingerprint: first, leaseLeftMs: Number(second) };
    if (kind === "settled") return { kind, fingerprint: first, result: bytesOfBase64(second) };
    throw invalidArgument("redisStore needs a client that returns text", reply);
  }

  async renew(key: string, owner: string, leaseMs: number): Promise<boolean> {
    assertLease(leaseMs);
    return (await this.#call(RENEW, key, [owner, `${leaseMs}`])) === 1;
  }

  async settle(key: string, owner: string, settlement: Settlement): Promise<boolean> {
    assertSettlement(settlement);
    const { result, retentionMs } = settlement;
    return (await this.#call(SETTLE, key, [owner, base64Of(result), `${retentionMs}`])) === 1;
  }

  async release(key: string, owner: string): Promise<boolean> {
    return (await this.#call(RELEASE, key, [owner])) === 1;
  }

  /** Nothing to do: every key has a time to live. */
  async sweep(): Promise<number> {
    return 0;
  }

  /** Sends the hash of a script. The server answers NOSCRIPT if it does not know it yet. */
  async #call(script: string, key: string, values: readonly string[]): Promise<unknown> {
    const name = this.#prefix + key;
    const all = [this.#clock === undefined ? "" : `${this.#clock.now()}`, ...values];
    try {
      const hash = this.#hashes.get(script) ?? (await this.#hashOf(script));
      return await this.#run(hash, true, name, all);
    } catch (error) {
      if (!/^NOSCRIPT/.test((error as Error).message)) throw error;
      return await this.#run(script, false, name, all);
    }
  }

  async #hashOf(script: string): Promise<string> {
    const hash = await sha1(script);
    this.#hashes.set(script, hash);
    return hash;
  }
}

function runnerOf(client: IoredisClient | NodeRedisClient): Run {
  if (typeof (client as Partial<NodeRedisClient>)?.evalSha === "function") {
    const own = client as NodeRedisClient;
    return (script, isHash, key, values) => {
      const given = { keys: [key], arguments: values };
      return isHash ? own.evalSha(script, given) : own.eval(script, given);
    };
  }
  if (typeof (client as Partial<IoredisClient>)?.evalsha === "function") {
    const own = client as IoredisClient;
    return (script, isHash, key, values) =>
      isHash ? own.evalsha(script, 1, key, ...values) : own.eval(script, 1, key, ...values);
  }
  throw invalidArgument("redisStore needs a client of ioredis or redis", client);
}

async function sha1(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-1", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// The operations in Lua. Redis runs a script alone, so each is atomic. ARGV[1] is the current instant, or empty
// for the clock of the server.

/**
 * The time to live of a hash is a minute longer than its retention: `expiresAt` decides, and the time
 * to live only removes what is left.
 */
const HEAD = `
local now = tonumber(ARGV[1])
if now == nil then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function text(number) return string.format('%.0f', number) end
local function keepUntil(expiresAt)
  redis.call('HSET', KEYS[1], 'expiresAt', text(expiresAt))
  redis.call('PEXPIRE', KEYS[1], text(expiresAt - now + 60000))
end
local row = redis.call('HMGET', KEYS[1], 'owner', 'expiresAt', 'fingerprint', 'takeovers', 'leaseUntil', 'result')
local isKnown = row[2] and tonumber(row[2]) > now
`;

/** For operations of the owner, ARGV[2]. */
const HELD = `${HEAD}
if not isKnown or row[1] ~= ARGV[2] then return 0 end
`;

/** ARGV: fingerprint, owner, lease, retention. */
const CLAIM: string = `${HEAD}
local takeovers = 0
if isKnown then
  if row[6] then return { 'settled', row[3], row[6] } end
  local leftMs = tonumber(row[5]) - now
  if leftMs > 0 or row[3] ~= ARGV[2] then
    return { 'running', row[3], text(math.max(0, leftMs)) }
  end
  takeovers = tonumber(row[4]) + 1
end
local leaseUntil = now + tonumber(ARGV[4])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'fingerprint', ARGV[2], 'owner', ARGV[3], 'takeovers', text(takeovers), 'leaseUntil', text(leaseUntil))
keepUntil(leaseUntil + tonumber(ARGV[5]))
return { 'claimed', text(takeovers) }
`;

/** ARGV: owner, lease. */
const RENEW: string = `${HELD}
if row[6] then return 0 end
local leaseUntil = now + tonumber(ARGV[3])
redis.call('HSET', KEYS[1], 'leaseUntil', text(leaseUntil))
keepUntil(tonumber(row[2]) + leaseUntil - tonumber(row[5]))
return 1
`;

/** ARGV: owner, result, retention. */
const SETTLE: string = `${HELD}
redis.call('HSET', KEYS[1], 'result', ARGV[3])
keepUntil(now + tonumber(ARGV[4]))
return 1
`;

/** ARGV: owner. */
const RELEASE: string = `${HELD}
if row[6] then return 0 end
redis.call('DEL', KEYS[1])
return 1
`;
