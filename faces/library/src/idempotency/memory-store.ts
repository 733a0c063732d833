/**
 * Memory store: idempotency keys of one process, for tests and for single processes whose keys may be
 * lost in a restart.
 */
import { assertRange, RedriveError, systemTime, type TimeSource } from "@redrive/core";
import {
  assertClaim,
  assertLease,
  assertSettlement,
  type Claim,
  type ClaimResult,
  claimResultOf,
  type IdempotencyStore,
  type KeyRow,
  type Settlement,
} from "./idempotency-store.ts";

export interface MemoryStoreOptions {
  /** Keys to remember at most. A claim beyond them fails with `STORE_FULL`. Default: 100,000. */
  readonly maxKeys?: number | undefined;
  /**
   * Bytes of results to remember. With more, claims of new keys fail with `STORE_FULL`; results of claims
   * that were made before are still stored. 1 byte to 1 TiB. Default: 256 MiB.
   */
  readonly maxBytes?: number | undefined;
  /** Default: the system's. */
  readonly clock?: Pick<TimeSource, "now"> | undefined;
}

interface Entry {
  readonly fingerprint: string;
  readonly owner: string;
  readonly takeovers: number;
  leaseUntil: number;
  expiresAt: number;
  result: Uint8Array | undefined;
}

const MIB = 1024 * 1024;

/** Entries that a claim looks at to make room. */
const SWEEP_PER_CLAIM = 64;

export function memoryStore(options: MemoryStoreOptions = {}): IdempotencyStore {
  return new MemoryStore(options);
}

class MemoryStore implements IdempotencyStore {
  readonly #clock: Pick<TimeSource, "now">;
  readonly #maxKeys: number;
  readonly #maxBytes: number;
  readonly #entries = new Map<string, Entry>();
  /** Of all results. */
  #bytes = 0;
  /** A live iterator: each sweep continues where the last one stopped. */
  #unswept = this.#entries.entries();

  constructor(options: MemoryStoreOptions) {
    const { maxKeys = 100_000, maxBytes = 256 * MIB, clock = systemTime } = options;
    assertRange("maxKeys", maxKeys, 1, 10_000_000);
    assertRange("maxBytes", maxBytes, 1, MIB * MIB);
    this.#maxKeys = maxKeys;
    this.#maxBytes = maxBytes;
    this.#clock = clock;
  }

  async claim(key: string, claim: Claim): Promise<ClaimResult> {
    assertClaim(key, claim);
    const { fingerprint, owner, leaseMs, retentionMs } = claim;
    const now = this.#clock.now();
    const entry = this.#get(key);
    const found = entry && claimResultOf(rowOf(entry, now), claim);
    if (found !== undefined) return found;
    if (!this.#entries.has(key)) this.#makeRoom();
    const takeovers = entry === undefined ? 0 : entry.takeovers + 1;
    const leaseUntil = now + leaseMs;
    const expiresAt = leaseUntil + retentionMs;
    const claimed = { fingerprint, owner, takeovers, leaseUntil, expiresAt, result: undefined };
    this.#remove(key);
    this.#entries.set(key, claimed);
    return { kind: "claimed", takeovers };
  }

  async renew(key: string, owner: string, leaseMs: number): Promise<boolean> {
    assertLease(leaseMs);
    const entry = this.#heldBy(owner, key);
    if (entry === undefined || entry.result !== undefined) return false;
    extend(entry, this.#clock.now() + leaseMs);
    return true;
  }

  async settle(key: string, owner: string, settlement: Settlement): Promise<boolean> {
    assertSettlement(settlement);
    const entry = this.#heldBy(owner, key);
    if (entry === undefined) return false;
    this.#bytes += settlement.result.length - (entry.result?.length ?? 0);
    // The `slice` of a Buffer does not copy.
    entry.result = new Uint8Array(settlement.result);
    entry.expiresAt = this.#clock.now() + settlement.retentionMs;
    return true;
  }

  async release(key: string, owner: string): Promise<boolean> {
    const entry = this.#heldBy(owner, key);
    return entry !== undefined && entry.result === undefined && this.#remove(key);
  }

  async sweep(limit: number): Promise<number> {
    return this.#sweep(limit);
  }

  #sweep(limit: number): number {
    const now = this.#clock.now();
    let removed = 0;
    for (let looked = 0; looked < limit; looked++) {
      const { done, value } = this.#unswept.next();
      if (done) {
        this.#unswept = this.#entries.entries();
        break;
      }
      const [key, { expiresAt }] = value;
      if (expiresAt <= now && this.#remove(key)) removed++;
    }
    return removed;
  }

  #remove(key: string): boolean {
    this.#bytes -= this.#entries.get(key)?.result?.length ?? 0;
    return this.#entries.delete(key);
  }

  get #isFull(): boolean {
    return this.#entries.size >= this.#maxKeys || this.#bytes >= this.#maxBytes;
  }

  #makeRoom(): void {
    if (!this.#isFull) return;
    this.#sweep(SWEEP_PER_CLAIM);
    if (!this.#isFull) return;
    const has = `${this.#entries.size} keys and ${this.#bytes} bytes`;
    const limits = `maxKeys is ${this.#maxKeys} and maxBytes ${this.#maxBytes}`;
    throw new RedriveError("STORE_FULL", `the memory store is full: it has ${has}; ${limits}`);
  }

  #get(key: string): Entry | undefined {
    const entry = this.#entries.get(key);
    return entry !== undefined && entry.expiresAt > this.#clock.now() ? entry : undefined;
  }

  #heldBy(owner: string, key: string): Entry | undefined {
    const entry = this.#get(key);
    return entry?.owner === owner ? entry : undefined;
  }
}

function rowOf({ fingerprint, leaseUntil, result }: Entry, now: number): KeyRow {
  return { fingerprint, leaseLeftMs: leaseUntil - now, result: result?.slice() ?? null };
}

/** A running key is remembered for as long after its new lease as after the old one. */
function extend(entry: Entry, leaseUntil: number): void {
  entry.expiresAt += leaseUntil - entry.leaseUntil;
  entry.leaseUntil = leaseUntil;
}
