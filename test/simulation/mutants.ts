/**
 * Mutants: Redrive with one safeguard taken out, each put around the production code from outside,
 * so that no line of it knows. The suite is worth something if it finds every one of them.
 */
import type { PolicyDocument } from "@redrive/core";
import type { Deliver } from "../../faces/service/src/engine/delivery.ts";
import { releaseOf } from "../../faces/service/src/engine/settling.ts";
import type {
  Batch,
  ClaimResult,
  CommitResult,
  Settle,
  StartedTask,
} from "../../faces/service/src/store.ts";
import type { MemoryStore } from "../../faces/service/src/stores/memory/memory-store.ts";

export interface Mutant {
  readonly name: string;
  /** The checker that is expected to find it. */
  readonly caughtBy: string;
  /** Changes what the store does. */
  readonly wrapMemory?: (memory: MemoryStore) => MemoryStore;
  /** Changes what nodes are told; `memory` is what lies below the observer. */
  readonly wrapStore?: (observed: MemoryStore, memory: MemoryStore) => MemoryStore;
  readonly wrapDeliver?: (deliver: Deliver) => Deliver;
  /** What nodes are given for all destinations together. */
  readonly retryBudget?: false;
}

const YEAR_MS = 365 * 86_400_000;

export const mutants: readonly Mutant[] = [
  {
    name: "no epoch check",
    caughtBy: "no two live claims",
    wrapMemory: (memory) => ({
      ...memory,
      commitNow: (batch) =>
        memory.commitNow({
          ...batch,
          settles: batch.settles.map((settle): Settle => {
            const claimEpoch = memory.peek(settle.tenantId, settle.taskId)?.claimEpoch ?? 0;
            return { ...settle, claimEpoch };
          }),
        }),
    }),
  },
  {
    name: "send before the claim commits",
    caughtBy: "wire bound",
    wrapStore: (observed, memory) => ({
      ...observed,
      commitNow: (batch) => ({
        ...observed.commitNow({ ...batch, claims: [] }),
        claims: foretold(memory, batch),
      }),
    }),
  },
  {
    name: "leave when claimed",
    caughtBy: "no early or late attempt",
    wrapStore: (observed) => ({
      ...observed,
      commitNow(batch) {
        const { claims, ...result } = observed.commitNow(batch);
        return { ...result, claims: claims.map((claim) => dueBy(claim, batch.now)) };
      },
    }),
  },
  {
    name: "no key uniqueness",
    caughtBy: "nothing lost",
    wrapMemory: (memory) => ({
      ...memory,
      commitNow: (batch) =>
        memory.commitNow({
          ...batch,
          creates: batch.creates.map((create) => ({ ...create, fingerprint: null })),
        }),
    }),
  },
  {
    name: "no deadline of an attempt",
    caughtBy: "no early or late attempt",
    wrapDeliver: (deliver) => (task, limits, done) =>
      deliver(task, { ...limits, attemptTimeoutMs: YEAR_MS }, done),
  },
  {
    name: "no deadline of a task",
    caughtBy: "no early or late attempt",
    wrapMemory: (memory) =>
      withPolicies(memory, (policy) => ({ ...policy, totalBudgetMs: YEAR_MS })),
  },
  {
    name: "cap removed",
    caughtBy: "wire bound",
    wrapMemory: (memory) =>
      withPolicies(memory, ({ delaysMs, ...policy }) => ({ ...policy, maxAttempts: 1000 })),
  },
  { name: "no budget of the whole service", caughtBy: "retry budget kept", retryBudget: false },
];

/** What is claimed ahead, told as if it were due. */
function dueBy(claim: ClaimResult, now: number): ClaimResult {
  const isDue = (task: StartedTask) => ({
    ...task,
    nextAttemptAt: Math.min(task.nextAttemptAt, now),
  });
  return { ...claim, tasks: claim.tasks.map(isDue) };
}

/** What the claims would start, told before any of it is stored. */
function foretold(memory: MemoryStore, batch: Batch): CommitResult["claims"] {
  const alone: Batch = {
    ...batch,
    destinations: [],
    creates: [],
    settles: [],
    cancels: [],
    wakes: [],
    notes: [],
  };
  const { claims } = memory.commitNow(alone);
  const settles = claims.flatMap(({ tasks }) =>
    tasks.map((task) => releaseOf(task, task.nextAttemptAt)),
  );
  memory.commitNow({ ...alone, claims: [], settles });
  return claims;
}

function withPolicies(
  memory: MemoryStore,
  change: (policy: PolicyDocument) => PolicyDocument,
): MemoryStore {
  return {
    ...memory,
    async getPolicy(...ref) {
      const row = await memory.getPolicy(...ref);
      if (row === null) return null;
      return { ...row, document: JSON.stringify(change(JSON.parse(row.document))) };
    },
  };
}
