/**
 * Duplicates: recognizes messages whose id was handled before. The id is claimed before the handler
 * runs and settled after it, so that a crash in between neither loses the message nor blocks its id
 * for longer than the lease.
 */
import { systemId } from "@redrive/core";
import { sha256 } from "../bytes/sha256.ts";
import type { IdempotencyStore } from "../stores/idempotency-store.ts";

/** Whether a message may be handled. */
export type IdClaim =
  /** It was handled before. */
  | { readonly kind: "done" }
  /** Another delivery of it is being handled. */
  | { readonly kind: "running" }
  /** It may be handled now. The caller must call one of the functions. */
  | {
      readonly kind: "claimed";
      /** Records that it was handled. */
      complete(): Promise<unknown>;
      /** It was not handled: another delivery may be. */
      release(): Promise<unknown>;
    };

export interface DuplicatesParts {
  readonly store: IdempotencyStore;
  /** Separates the ids of consumers that share a store. */
  readonly scope: string;
  /** Longer than a handler may run. */
  readonly leaseMs: number;
  readonly retentionMs: number;
  readonly newOwner?: () => string;
}

/** All deliveries of an id stand for the same message. */
const FINGERPRINT = "message";

const NO_RESULT = new Uint8Array(0);

/** Keys that every store can keep. */
const STORABLE = /^[\x20-\x7e]{1,256}$/;

export class Duplicates {
  readonly #parts: DuplicatesParts;

  constructor(parts: DuplicatesParts) {
    this.#parts = parts;
  }

  async begin(id: string): Promise<IdClaim> {
    const { store, scope, leaseMs, retentionMs, newOwner = systemId } = this.#parts;
    const plain = `${scope}/${id}`;
    const key = STORABLE.test(plain) ? plain : `${scope}/sha256/${await sha256([id])}`;
    const owner = newOwner();
    const claim = { fingerprint: FINGERPRINT, owner, leaseMs, retentionMs };
    const found = await store.claim(key, claim);
    if (found.kind === "settled") return { kind: "done" };
    if (found.kind === "running") return { kind: "running" };
    return {
      kind: "claimed",
      complete: () => store.settle(key, owner, { result: NO_RESULT, retentionMs }),
      release: () => store.release(key, owner),
    };
  }
}
