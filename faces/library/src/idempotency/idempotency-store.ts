/**
 * Idempotency store: the contract of the stores that remember which keys were used and with which
 * result. A store compares and writes; it decides nothing about requests or messages.
 *
 * Durations are arguments, instants are not. A store measures all leases with one clock (that of its
 * server, if it has one), so the clocks of its callers do not matter.
 */
import { invalidArgument, quote, RedriveError } from "@redrive/core";

export interface IdempotencyStore {
  /**
   * Claims a key. At most one caller holds a key, until its lease ends. A key that was never used, was
   * released or has expired is free. A claim whose lease has ended is taken over by a claim with the
   * same fingerprint.
   */
  claim(key: string, claim: Claim): Promise<ClaimResult>;

  /** Starts the lease anew. False if `owner` does not hold the key, or has settled it. */
  renew(key: string, owner: string, leaseMs: number): Promise<boolean>;

  /**
   * Stores the result, which later claims get for `retentionMs`. If `owner` does not hold the key any
   * more, changes nothing and returns false: the caller must discard its result. A repeated call by
   * the same owner returns true.
   */
  settle(key: string, owner: string, settlement: Settlement): Promise<boolean>;

  /** Frees a key that has no result. False if `owner` does not hold it, or has settled it. */
  release(key: string, owner: string): Promise<boolean>;

  /** Removes expired keys. Looks at no more than `limit` of them and returns how many it removed. */
  sweep(limit: number): Promise<number>;
}

export interface Claim {
  /** What the key stands for. Two claims of one key with different fingerprints do not match. */
  readonly fingerprint: string;
  /** Unique to this claim, such as a UUID. Proves to the store that the caller holds the key. */
  readonly owner: string;
  /** How long the claim lasts unless it is renewed. */
  readonly leaseMs: number;
  /** How long the key is remembered if its caller is never heard of again. */
  readonly retentionMs: number;
}

export interface Settlement {
  readonly result: Uint8Array;
  readonly retentionMs: number;
}

export type ClaimResult =
  | {
      readonly kind: "claimed";
      /** How many earlier claims of this key ended with their lease, without a result. */
      readonly takeovers: number;
    }
  /** Another claim holds the key, or its lease has ended (0 ms left) and the fingerprints differ. */
  | { readonly kind: "running"; readonly fingerprint: string; readonly leaseLeftMs: number }
  | { readonly kind: "settled"; readonly fingerprint: string; readonly result: Uint8Array };

/** A store that can also settle a key in the caller's own transaction `Tx`. */
export interface TransactionalStore<Tx, Settled extends boolean | Promise<boolean>>
  extends IdempotencyStore {
  /**
   * As `settle`, inside the transaction. The result is stored if and only if the transaction commits.
   * If it returns false, roll back: another claim holds the key.
   */
  settleIn(tx: Tx, key: string, owner: string, settlement: Settlement): Settled;
}

/** Texts that every store can keep and compare exactly. */
const STORABLE = /^[\x20-\x7e]{1,256}$/;

const DAY_MS = 86_400_000;

/** A payment can be disputed for weeks after it was made. */
export const MAX_RETENTION_MS: number = 45 * DAY_MS;

/** Throws unless every store could keep this claim. */
export function assertClaim(key: string, claim: Claim): void {
  assertText("key", key);
  assertText("owner", claim.owner);
  assertText("fingerprint", claim.fingerprint);
  assertLease(claim.leaseMs);
  assertMs("retentionMs", claim.retentionMs, MAX_RETENTION_MS);
}

export function assertLease(leaseMs: number): void {
  assertMs("leaseMs", leaseMs, DAY_MS);
}

/** Throws unless every store could keep this result. */
export function assertSettlement({ result, retentionMs }: Settlement): void {
  if (!(result instanceof Uint8Array)) throw invalidArgument("result must be bytes", result);
  assertMs("retentionMs", retentionMs, MAX_RETENTION_MS);
}

function assertMs(name: string, value: number, max: number): void {
  if (Number.isInteger(value) && value >= 1 && value <= max) return;
  throw invalidArgument(`${name} must be a whole number from 1 to ${max}`, value);
}

function assertText(name: string, value: string): void {
  if (typeof value === "string" && STORABLE.test(value)) return;
  throw invalidArgument(`${name} must be 1 to 256 characters of printable ASCII`, value);
}

// How a claim reads what a store knows about its key, who gets a key that several claims want, and the name of
// the table. The stores that keep rows share it.

/** A key that has not expired. */
export interface KeyRow {
  readonly fingerprint: string;
  /** Negative if the lease has ended. */
  readonly leaseLeftMs: number;
  /** Null while the claim runs. */
  readonly result: Uint8Array | null;
}

/** What a claim gets from the row; undefined if it may take the key over. */
export function claimResultOf(row: KeyRow, claim: Claim): ClaimResult | undefined {
  const { fingerprint, leaseLeftMs, result } = row;
  if (result !== null) return { kind: "settled", fingerprint, result };
  if (leaseLeftMs <= 0 && fingerprint === claim.fingerprint) return undefined;
  return { kind: "running", fingerprint, leaseLeftMs: Math.max(0, leaseLeftMs) };
}

/** Claims of one key that met each other, before one gives up. More than two are very unlikely. */
const MAX_MEETINGS = 10;

/** Repeats a claim that collides with another one, until the store knows which of them has the key. */
export async function untilClear(
  key: string,
  claim: () => ClaimResult | undefined | Promise<ClaimResult | undefined>,
): Promise<ClaimResult> {
  for (let meetings = 0; meetings < MAX_MEETINGS; meetings++) {
    const result = await claim();
    if (result !== undefined) return result;
  }
  const text = `the claim of key ${quote(key)} met other claims ${MAX_MEETINGS} times`;
  throw new RedriveError("STORE_UNAVAILABLE", text);
}

/** Names that need no quotes, with room for the suffix of an index. PostgreSQL cuts at 63 bytes. */
const NAME = /^([a-z_][a-z0-9_]{0,47}\.)?[a-z_][a-z0-9_]{0,47}$/;

export function tableName(name = "redrive_idempotency"): string {
  if (typeof name === "string" && NAME.test(name)) return name;
  const text = "table must be a name of lowercase letters, digits and _ (up to 48 characters)";
  throw invalidArgument(text, name);
}
