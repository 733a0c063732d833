/**
 * Store model: the contract of an idempotency store as a table of a few lines, to compare real stores
 * with in random histories.
 */
import type { ClaimResult, IdempotencyStore } from "./idempotency-store.ts";

interface Keyed {
  readonly key: string;
  readonly owner: string;
}

export type KeyStep =
  | (Keyed & {
      readonly kind: "claim";
      readonly fingerprint: string;
      readonly leaseMs: number;
      readonly retentionMs: number;
    })
  | (Keyed & { readonly kind: "renew"; readonly leaseMs: number })
  | (Keyed & { readonly kind: "settle"; readonly byte: number; readonly retentionMs: number })
  | (Keyed & { readonly kind: "release" });

export type Step =
  | KeyStep
  | { readonly kind: "advance"; readonly ms: number }
  | { readonly kind: "sweep" };

interface Row {
  readonly owner: string;
  readonly fingerprint: string;
  readonly takeovers: number;
  readonly leaseUntil: number;
  readonly expiresAt: number;
  readonly result: Uint8Array | undefined;
}

/**
 * Whether an expired row still exists depends on the sweeps of a store, so a late finisher may find
 * it or not. The model removes it at once, and so must every store.
 */
export class ModelStore {
  readonly #rows = new Map<string, Row>();

  step(step: KeyStep, now: number): ClaimResult | boolean {
    const row = this.#rows.get(step.key);
    if (row !== undefined && row.expiresAt <= now) this.#rows.delete(step.key);
    if (step.kind === "claim") return this.#claim(step, now);
    const held = this.#rows.get(step.key);
    if (held?.owner !== step.owner) return false;
    return this.#change(step, held, now);
  }

  #change(step: Exclude<KeyStep, { kind: "claim" }>, row: Row, now: number): boolean {
    if (step.kind === "settle") {
      const result = Uint8Array.of(step.byte);
      this.#rows.set(step.key, { ...row, result, expiresAt: now + step.retentionMs });
      return true;
    }
    if (row.result !== undefined) return false;
    if (step.kind === "release") return this.#rows.delete(step.key);
    const leaseUntil = now + step.leaseMs;
    const expiresAt = row.expiresAt + leaseUntil - row.leaseUntil;
    this.#rows.set(step.key, { ...row, leaseUntil, expiresAt });
    return true;
  }

  #claim(step: Extract<KeyStep, { kind: "claim" }>, now: number): ClaimResult {
    const row = this.#rows.get(step.key);
    const { owner, fingerprint, leaseMs, retentionMs } = step;
    if (row?.result !== undefined) {
      return { kind: "settled", fingerprint: row.fingerprint, result: row.result };
    }
    if (row !== undefined && (row.leaseUntil > now || row.fingerprint !== fingerprint)) {
      const leaseLeftMs = Math.max(0, row.leaseUntil - now);
      return { kind: "running", fingerprint: row.fingerprint, leaseLeftMs };
    }
    const takeovers = row === undefined ? 0 : row.takeovers + 1;
    const leaseUntil = now + leaseMs;
    const expiresAt = leaseUntil + retentionMs;
    const claimed = { owner, fingerprint, takeovers, leaseUntil, expiresAt, result: undefined };
    this.#rows.set(step.key, claimed);
    return { kind: "claimed", takeovers };
  }
}

/** Runs the step on a real store. Results of claims are comparable with those of the model. */
export async function runStep(
  store: IdempotencyStore,
  prefix: string,
  step: KeyStep,
): Promise<ClaimResult | boolean> {
  const key = prefix + step.key;
  if (step.kind === "claim") {
    const result = await store.claim(key, step);
    if (result.kind !== "settled") return result;
    return { ...result, result: new Uint8Array(result.result) };
  }
  if (step.kind === "renew") return await store.renew(key, step.owner, step.leaseMs);
  if (step.kind === "release") return await store.release(key, step.owner);
  const settlement = { result: Uint8Array.of(step.byte), retentionMs: step.retentionMs };
  return await store.settle(key, step.owner, settlement);
}
