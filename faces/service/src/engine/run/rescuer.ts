/**
 * Rescuer: settles claims whose node is gone. Each is an attempt with the outcome `abandoned`, put
 * to `decide` like any other, so the bound on attempts holds across crashes. It also gives back
 * claims in this node's own name that its memory does not know: a commit whose answer was lost.
 */
import type { Random } from "@redrive/core";
import type { Store } from "../../model/store.ts";
import type { Settle, StartedTask } from "../../model/batch.ts";
import type { CommitLoop } from "../commit/commit-loop.ts";
import type { EngineEvents } from "../events/engine-events.ts";
import type { EngineTime } from "../node/engine-time.ts";
import type { PolicyCache } from "../policies/policy-cache.ts";
import type { Scheduler } from "../schedule/scheduler.ts";
import { type FindDestination, type FollowUp, withFollowUps } from "./follow-up-tasks.ts";
import { announce, type Runner } from "./runner.ts";
import { abandonedLogOf, decideEnding, expirationOf, releaseOf, settleOf } from "./settlement.ts";

export interface RescuerParts {
  readonly nodeId: string;
  readonly store: Store;
  readonly time: EngineTime;
  readonly random: Random;
  readonly policies: PolicyCache;
  readonly scheduler: Scheduler;
  readonly events: EngineEvents;
  readonly turn: CommitLoop;
  readonly runner: Runner;
  readonly destinationOf: FindDestination;
  readonly follow: FollowUp;
}

/** Claims looked at in one go. */
const SLICE = 128;

/** How long after a failed commit its claims are looked for: it may still come to pass. */
const SUSPECT_MS = 60_000;

export class Rescuer {
  readonly #parts: RescuerParts;
  /** Claims whose settle is on its way. */
  readonly #settling = new Set<number>();
  /** Claims may have been made that nobody here knows of; until a look after then has found none. */
  #isSuspect = false;
  #suspectUntil = 0;
  /** The latest look found as many as it asked for. */
  #isMore = false;

  constructor(parts: RescuerParts) {
    this.#parts = parts;
  }

  /** A commit failed: claims may have been made that nobody here knows of. */
  suspect(now: number): void {
    this.#isSuspect = true;
    this.#suspectUntil = now + SUSPECT_MS;
  }

  /** Looks once. Resolves when what was found is on its way to be settled. */
  async runOnce(now: number): Promise<void> {
    const { store, nodeId, turn } = this.#parts;
    const claims = await store.lapsed({ now, nodeId, limit: SLICE });
    this.#isMore = claims.length === SLICE;
    for (const claim of claims) if (this.#isFree(claim)) await this.#rescue(claim);
    if (this.#isSuspect) turn.betweenCommits(() => this.#releaseUnknown(now));
  }

  #isFree({ ref }: StartedTask): boolean {
    return !this.#settling.has(ref) && !this.#parts.runner.holds(ref);
  }

  async #rescue(task: StartedTask): Promise<void> {
    const { policies, time, random, destinationOf } = this.#parts;
    const policy = await policies.load(task);
    if (!this.#isFree(task)) return;
    if (policy === null) return this.#settle(task, expirationOf(task, "not-retryable"));
    const now = time.now();
    const gates = destinationOf(task.tenantId, task.destination).gates(now, false);
    const ending = { task, policy, outcome: { kind: "abandoned" } as const, gates, now, random };
    this.#settle(task, settleOf(ending, decideEnding(ending), abandonedLogOf(task, now)));
  }

  /** Those that are known come up too, and must not hide the others. */
  async #releaseUnknown(now: number): Promise<void> {
    const { store, nodeId, runner } = this.#parts;
    const limit = SLICE + runner.held() + this.#settling.size;
    const claims = await store.claimsOf(nodeId, limit);
    for (const claim of claims) {
      if (this.#isFree(claim)) this.#settle(claim, releaseOf(claim, claim.nextAttemptAt));
    }
    if (now >= this.#suspectUntil && claims.length < limit) this.#isSuspect = false;
  }

  #settle(task: StartedTask, settled: Settle): void {
    const { turn, time, destinationOf, follow } = this.#parts;
    const destination = destinationOf(task.tenantId, task.destination);
    const endedAt = time.now();
    const settle = withFollowUps(follow, task, settled, endedAt);
    this.#settling.add(task.ref);
    destination.users++;
    turn.addSettle({
      settle,
      destination,
      done: (result) => {
        this.#settling.delete(task.ref);
        destination.users--;
        announce(this.#parts, { task, destination, settle, result, endedAt });
        if (this.#isMore && this.#settling.size === 0) this.#goOn();
      },
    });
  }

  /** A slice is done and there were more: they do not wait for the next round of upkeep. */
  #goOn(): void {
    this.#isMore = false;
    // What fails here is looked at again then.
    this.runOnce(this.#parts.time.now()).catch(() => {});
  }
}
