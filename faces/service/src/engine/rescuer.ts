/**
 * Rescuer: settles claims whose node is gone. Each one is an attempt with the outcome `abandoned`,
 * and `decide` handles it like any other, so the limit on attempts holds across crashes. It also
 * releases claims in this node's name that the node does not know, because the result of their
 * commit was lost.
 */
import type { Clock, Random } from "@redrive/core";
import type { Settle, StartedTask, TaskRef } from "../model/batch.ts";
import { isUnreadable, type PolicyCache } from "../model/policy-cache.ts";
import type { Store } from "../model/store.ts";
import type { CommitLoop, CommitQueue, StoreHealth } from "./commit.ts";
import type { NodeState, OwnPartitions } from "./node.ts";
import { abandonedHoldOf, type Runner } from "./runner.ts";
import {
  abandonedLogOf,
  applySettled,
  decideEnding,
  expirationOf,
  type FollowUp,
  releaseOf,
  type SettledTaskParts,
  settleOf,
  withFollowUps,
} from "./settlement.ts";

interface RescuerParts extends SettledTaskParts {
  readonly clock: Clock;
  readonly store: Store;
  readonly random: Random;
  readonly node: NodeState;
  readonly partitions: OwnPartitions;
  readonly health: StoreHealth;
  readonly queue: CommitQueue;
  readonly commitLoop: CommitLoop;
  readonly policies: PolicyCache;
  readonly runner: Runner;
  readonly followUp: FollowUp;
}

/** The number of claims per check. */
const SLICE = 128;

/**
 * A node of a fleet compares its claims with those of the store this often: a commit that hung on the
 * server may end long after it was given up.
 */
const COMPARE_MS = 60_000;

export class Rescuer {
  readonly #parts: RescuerParts;
  /** Claims whose settle is not committed yet. */
  readonly #settling = new Set<string>();
  /** The last check found a full slice. */
  #hasMore = false;
  #comparedMs: number;

  constructor(parts: RescuerParts) {
    this.#parts = parts;
    this.#comparedMs = parts.clock.monotonicMs();
  }

  /** Checks once. Resolves when the settles of the found claims are queued. */
  async runOnce(): Promise<void> {
    const { store, node, health, commitLoop, partitions } = this.#parts;
    const { nodeId } = node;
    const claims = await store.lapsed({ nodeId, partitions: partitions.list, limit: SLICE });
    this.#hasMore = claims.length === SLICE;
    for (const claim of claims) if (this.#isFree(claim)) await this.#rescue(claim);
    if (health.mayHaveUnknownClaims() || this.#isCompareDue()) {
      commitLoop.betweenCommits(() => this.#releaseUnknown());
    }
  }

  #isCompareDue(): boolean {
    const { store, clock } = this.#parts;
    const nowMs = clock.monotonicMs();
    if (store.exclusive || nowMs < this.#comparedMs + COMPARE_MS) return false;
    this.#comparedMs = nowMs;
    return true;
  }

  #isFree(claim: StartedTask): boolean {
    return !this.#settling.has(keyOf(claim)) && !this.#parts.runner.holds(claim);
  }

  async #rescue(task: StartedTask): Promise<void> {
    const { policies, time, random, destinations } = this.#parts;
    const policy = await policies.load(task);
    await destinations.load(task.tenantId, task.destination);
    if (!this.#isFree(task)) return;
    if (policy === null) return this.#settle(task, expirationOf(task, "not-retryable"));
    const now = time.now();
    if (isUnreadable(policy)) {
      this.#settle(task, abandonedHoldOf(task, policy.unreadable, now));
      return;
    }
    const gates = destinations.getOrCreate(task.tenantId, task.destination).gates(now, false);
    const ending = { task, policy, outcome: { kind: "abandoned" } as const, gates, now, random };
    this.#settle(task, settleOf(ending, decideEnding(ending), abandonedLogOf(task, now)));
  }

  /** The limit covers the known claims too, so that they cannot hide the unknown ones. */
  async #releaseUnknown(): Promise<void> {
    const { store, node, health, runner } = this.#parts;
    const recordCheck = health.startClaimCheck();
    const limit = SLICE + runner.heldCount() + this.#settling.size;
    const claims = await store.claimsOf(node.nodeId, limit);
    for (const claim of claims) {
      if (this.#isFree(claim)) this.#settle(claim, releaseOf(claim, claim.nextAttemptAt));
    }
    if (claims.length < limit) recordCheck();
  }

  #settle(task: StartedTask, settled: Settle): void {
    const { queue, time, destinations, followUp } = this.#parts;
    const destination = destinations.getOrCreate(task.tenantId, task.destination);
    const endedAt = time.now();
    const settle = withFollowUps(followUp, task, settled, destination.delivery, endedAt);
    this.#settling.add(keyOf(task));
    destination.users++;
    queue.addSettle({
      settle,
      destination,
      done: (result, now) => {
        this.#settling.delete(keyOf(task));
        destination.users--;
        applySettled(this.#parts, { task, destination, settle, result, endedAt, now });
        if (this.#hasMore && this.#settling.size === 0) this.#continue();
      },
    });
  }

  /** The slice is done and there are more claims: they do not wait for the next maintenance. */
  #continue(): void {
    this.#hasMore = false;
    // A failure here is harmless: the next maintenance checks again.
    this.runOnce().catch(() => {});
  }
}

function keyOf({ tenantId, taskId }: TaskRef): string {
  return `${tenantId}\n${taskId}`;
}
