/**
 * Key row: how a claim reads what a store knows about its key, and who gets a key that several claims
 * want. The stores that keep rows share it.
 */
import { quote, RedriveError } from "@redrive/core";
import type { Claim, ClaimResult } from "./idempotency-store.ts";

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

/** Repeats a claim that returns undefined because it met another one, until it is clear who has the key. */
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
