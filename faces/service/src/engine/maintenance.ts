/**
 * Upkeep: what a node does every two seconds: renew its lease, rescue what others left behind, look
 * for what others put in, and remove what is past its time.
 */
import type { Cancel, Clock } from "@redrive/core";
import type { Store } from "../model/store.ts";
import type { EngineTime } from "./node/engine-time.ts";
import { type NodeLease, RENEW_INTERVAL_MS } from "./node/node-lease.ts";
import type { Rescuer } from "./run/rescuer.ts";

export interface UpkeepParts {
  readonly clock: Clock;
  readonly time: EngineTime;
  readonly store: Store;
  readonly lease: NodeLease;
  readonly rescuer: Rescuer;
  readonly retentionMs: number | undefined;
  readonly deadLetterRetentionMs: number | undefined;
  readonly leaseLost: () => void;
  readonly leaseBack: () => void;
  /** Reads from the store what other nodes have done. */
  readonly noteOthers: () => Promise<void>;
  /** Has written down what the guards have learnt and no commit has taken along. */
  readonly noteGuards: () => void;
  /** Forgets destinations that nobody uses. */
  readonly dropIdle: () => void;
  readonly storeFailed: (error: unknown) => void;
}

const DAY_MS = 86_400_000;

/** Rows removed in one go, so that nobody waits for it; a full slice is followed soon. */
const SWEEP_LIMIT = 200;
const SWEEP_PAUSE_MS = 20;

export class Maintenance {
  readonly #parts: UpkeepParts;
  #cancel: Cancel | undefined;
  #isStopped = false;
  #isLost = false;
  #isBusy = false;
  #isSweeping = false;
  #heldSince = 0;

  constructor(parts: UpkeepParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#heldSince = this.#parts.lease.heldSince();
    this.#arm();
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
  }

  #arm(): void {
    if (this.#isStopped) return;
    this.#cancel = this.#parts.clock.alarm(RENEW_INTERVAL_MS, () => void this.runOnce(), true);
  }

  /** One round. Never rejects: a store that is away now is asked again next time. */
  async runOnce(): Promise<void> {
    this.#arm();
    this.#noteLease();
    if (this.#isBusy) return;
    this.#isBusy = true;
    const { lease, time, rescuer, store, noteOthers, noteGuards, dropIdle } = this.#parts;
    try {
      await lease.renew();
      this.#noteLease();
      await rescuer.runOnce(time.now());
      if (!store.exclusive) await noteOthers();
      noteGuards();
      dropIdle();
      // One that is still at work from an earlier round goes on alone.
      if (!this.#isSweeping) await this.#sweep();
    } catch (error) {
      this.#noteLease();
      if (!this.#isStopped) this.#parts.storeFailed(error);
    } finally {
      this.#isBusy = false;
    }
  }

  /** Also a gap that is over before it was seen is a loss: others may have taken over. */
  #noteLease(): void {
    const { lease, time, leaseLost, leaseBack } = this.#parts;
    if (this.#isStopped) return;
    const wasLost = this.#isLost;
    this.#isLost = !lease.isHeld(time.now());
    const hadGap = lease.heldSince() !== this.#heldSince;
    this.#heldSince = lease.heldSince();
    if (hadGap || (this.#isLost && !wasLost)) leaseLost();
    if (!this.#isLost && (wasLost || hadGap)) leaseBack();
  }

  /** A full slice is followed soon, so that removing keeps up with what is taken in. */
  async #sweep(): Promise<void> {
    const { clock, storeFailed: failed } = this.#parts;
    this.#isSweeping = true;
    try {
      this.#isSweeping = (await this.#removeSlice()) === SWEEP_LIMIT && !this.#isStopped;
    } catch (error) {
      this.#isSweeping = false;
      throw error;
    }
    if (!this.#isSweeping) return;
    clock.alarm(SWEEP_PAUSE_MS, () => void this.#sweep().catch(failed), true);
  }

  #removeSlice(): Promise<number> {
    const { store, time, retentionMs = 3 * DAY_MS } = this.#parts;
    const { deadLetterRetentionMs = 30 * DAY_MS } = this.#parts;
    const now = time.now();
    return store.sweep({
      now,
      endedBefore: now - retentionMs,
      deadBefore: now - deadLetterRetentionMs,
      limit: SWEEP_LIMIT,
    });
  }
}
