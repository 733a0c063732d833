/**
 * World: everything around the nodes of one seed: time, store, targets, and the observer that tells
 * the checkers what happens.
 */
import { type Policy, type PolicyDocument, type Random, resolve } from "@redrive/core";
import { type AttemptResult, unstarted } from "../../faces/service/src/deliver/attempt-result.ts";
import type { Deliver } from "../../faces/service/src/engine/delivery.ts";
import type { Batch, CommitResult } from "../../faces/service/src/store.ts";
import {
  createFaults,
  type Faults,
} from "../../faces/service/src/stores/memory/faulty-store.testing.ts";
import {
  type MemoryStore,
  memoryStore,
} from "../../faces/service/src/stores/memory/memory-store.ts";
import { allCheckers } from "./checkers/all-checkers.ts";
import type { Coverage } from "./coverage.ts";
import type { Checker, Committed, Sent } from "./history.ts";
import type { Mutant } from "./mutants.ts";
import { type NodeClock, SimClock } from "./sim-clock.ts";
import { Targets } from "./targets.ts";

export const START_AT = 1_800_000_000_000;
export const TENANT = "tenant";

/** Short enough that whatever is left ends soon after the faults have stopped. */
export const POLICIES: Readonly<Record<string, PolicyDocument>> = {
  curve: { maxAttempts: 4, maxDelayMs: 2000, attemptTimeoutMs: 2000, totalBudgetMs: 60_000 },
  eager: {
    maxAttempts: 7,
    backoff: "FIXED",
    initialDelayMs: 300,
    jitterType: "NONE",
    attemptTimeoutMs: 1000,
    totalBudgetMs: 20_000,
  },
  list: { delaysMs: [1000, 4000], attemptTimeoutMs: 3000, totalBudgetMs: 40_000 },
  once: { maxAttempts: 1, attemptTimeoutMs: 1500, totalBudgetMs: 30_000 },
};

const RESOLVED = new Map<string, Policy>(
  Object.entries(POLICIES).map(([id, document]) => [id, resolve(document)]),
);

/** Each destination stays in one mood for this long. */
const PHASE_MS = 7000;
const DESTINATIONS = 4;

/** Late answers of the store take up to this long; longer than a lease. */
const LATEST_ANSWER_MS = 4000;

export class World {
  readonly clock = new SimClock(START_AT);
  readonly targets: Targets;
  readonly checkers: readonly Checker[];
  readonly faults: Faults;
  /** What nodes talk to, through their faults. */
  readonly store: MemoryStore;
  readonly mutant: Mutant | undefined;
  readonly #memory: MemoryStore;
  readonly #coverage: Coverage;
  /** The first violation; it may be found within the engine's own callbacks. */
  violation: unknown;

  constructor(random: Random, faultRate: number, coverage: Coverage, mutant: Mutant | undefined) {
    this.targets = new Targets(random.fork("targets"), DESTINATIONS, START_AT, PHASE_MS);
    this.checkers = allCheckers((policyId) => policyNamed(policyId).maxAttempts);
    this.faults = createFaults(faultRate, LATEST_ANSWER_MS);
    this.mutant = mutant;
    this.#coverage = coverage;
    this.#memory = memoryStore({ exclusive: false });
    const mutated = mutant?.wrapMemory?.(this.#memory) ?? this.#memory;
    const observed: MemoryStore = {
      ...mutated,
      commitNow: (batch) => this.#commitNow(batch, mutated),
    };
    this.store = mutant?.wrapStore?.(observed, this.#memory) ?? observed;
  }

  async prepare(): Promise<void> {
    for (const [policyId, document] of Object.entries(POLICIES)) {
      await this.#memory.addPolicy({
        tenantId: TENANT,
        policyId,
        version: 1,
        document: JSON.stringify(document),
        createdAt: START_AT,
      });
    }
  }

  destinationName(draw: number): string {
    return `d${Math.floor(draw * DESTINATIONS)}`;
  }

  pausedDestinations(): readonly string[] {
    const names = Array.from({ length: DESTINATIONS }, (_, index) => `d${index}`);
    return names.filter((name) => {
      const row = this.#memory.peekDestination(TENANT, name);
      return row !== undefined && row.pausedAt !== null;
    });
  }

  get truth(): MemoryStore {
    return this.#memory;
  }

  #commitNow(batch: Batch, store: MemoryStore): CommitResult {
    const destinations = new Set([
      ...batch.claims.map(({ destination }) => destination),
      ...batch.creates.map(({ task }) => task.destination),
      ...batch.destinations.map(({ row }) => row.name),
    ]);
    const rowsBefore = new Map(
      [...destinations].map((name) => [name, this.#memory.peekDestination(TENANT, name)]),
    );
    const tasksBefore = new Map<string, NonNullable<ReturnType<MemoryStore["peek"]>>>();
    for (const { taskId } of [...batch.settles, ...batch.cancels, ...batch.wakes]) {
      const task = this.#memory.peek(TENANT, taskId);
      if (task !== undefined) tasksBefore.set(taskId, task);
    }
    const result = store.commitNow(batch);
    const at = this.clock.now();
    const event: Committed = { at, batch, result, rowsBefore, tasksBefore };
    this.#coverage.committed(event);
    this.check((checker) => checker.committed?.(event));
    return result;
  }

  /** Tells the checkers; what they find ends the seed. */
  check(tell: (checker: Checker) => void): void {
    if (this.violation !== undefined) return;
    try {
      for (const checker of this.checkers) tell(checker);
    } catch (error) {
      this.violation = error;
    }
  }

  /** The network between a node and the targets. */
  deliverFrom(nodeId: string, nodeClock: NodeClock): Deliver {
    const deliver: Deliver = (task, limits, done) => {
      if (nodeClock.isDead()) return;
      const at = this.clock.now();
      const policy = policyNamed(task.policyId);
      const event: Sent = { at, nodeId, task, policy, timeoutMs: limits.attemptTimeoutMs };
      this.check((checker) => checker.sent?.(event));
      const answer = this.targets.answer(task.destination, at);
      const isLate = answer.afterMs > limits.attemptTimeoutMs;
      const afterMs = isLate ? limits.attemptTimeoutMs : answer.afterMs;
      const outcome = isLate ? TIMED_OUT : answer.outcome;
      const succeeded = outcome.kind === "success";
      let isOver = false;
      const end = (result: AttemptResult) => {
        if (isOver) return;
        isOver = true;
        done(result);
      };
      this.clock.set(afterMs, () => {
        this.check((checker) => checker.ended?.(event, this.clock.now(), succeeded));
      });
      nodeClock.alarm(afterMs, () => end(resultOf(outcome, afterMs)));
      limits.signal.addEventListener("abort", () => {
        nodeClock.alarm(0, () => end(unstarted({ kind: "aborted" }, null)));
      });
    };
    return this.mutant?.wrapDeliver?.(deliver) ?? deliver;
  }
}

const TIMED_OUT = { kind: "error", errorClass: "timeout", sent: true } as const;

function resultOf(outcome: AttemptResult["outcome"], durationMs: number): AttemptResult {
  const status =
    outcome.kind === "status" || outcome.kind === "success" ? (outcome.status ?? null) : null;
  return { ...unstarted(outcome, null), status, durationMs };
}

function policyNamed(policyId: string): Policy {
  const policy = RESOLVED.get(policyId);
  if (policy === undefined) throw new Error(`no policy ${policyId}`);
  return policy;
}
