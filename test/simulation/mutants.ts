/**
 * Mutants: versions of Redrive with one safeguard removed. Each mutant wraps the production code
 * from outside and changes none of it. The simulation must find every mutant.
 */
import type { PolicyDocument } from "@redrive/core";
import { releaseOf } from "../../faces/service/src/engine/settlement.ts";
import {
  type Batch,
  type ClaimRequest,
  type ClaimResult,
  type CommitResult,
  type Create,
  EMPTY_BATCH,
  type Settle,
  type StartedTask,
} from "../../faces/service/src/model/batch.ts";
import type { DestinationRow } from "../../faces/service/src/model/destination-row.ts";
import { partitionOf } from "../../faces/service/src/model/partition.ts";
import type { NewTask, RetryTask } from "../../faces/service/src/model/task.ts";
import type { MemoryStore } from "../../faces/service/src/stores/memory/memory-store.ts";
import { fleetMutants } from "./fleet-mutants.ts";
import type { Mutant } from "./mutant.ts";

const YEAR_MS = 365 * 86_400_000;

export const mutants: readonly Mutant[] = [
  {
    name: "no epoch check",
    caughtBy: "no two live claims",
    foundBy: 3,
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
        claims: claimsBeforeCommit(memory, batch),
      }),
    }),
  },
  {
    name: "suspects that run like other tasks",
    caughtBy: "one suspect at a time",
    foundBy: 23,
    wrapStore: (observed) => ({
      ...observed,
      commitNow(batch) {
        const { claims, ...result } = observed.commitNow(batch);
        return { ...result, claims: claims.map(asIfNeverAbandoned) };
      },
    }),
  },
  {
    name: "send as soon as claimed",
    caughtBy: "no early or late attempt",
    wrapStore: (observed) => ({
      ...observed,
      commitNow(batch) {
        const { claims, ...result } = observed.commitNow(batch);
        return { ...result, claims: claims.map((claim) => asIfDue(claim, batch.now)) };
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
    name: "no attempt timeout",
    caughtBy: "no early or late attempt",
    wrapDeliver: (deliver) => (task, limits, done) =>
      deliver(task, { ...limits, attemptTimeoutMs: YEAR_MS }, done),
  },
  {
    name: "no total budget of a task",
    caughtBy: "no early or late attempt",
    wrapMemory: (memory) =>
      withPolicies(memory, (policy) => ({ ...policy, totalBudgetMs: YEAR_MS })),
  },
  {
    name: "no attempt limit",
    caughtBy: "wire bound",
    wrapMemory: (memory) =>
      withPolicies(memory, ({ delaysMs, ...policy }) => ({ ...policy, maxAttempts: 1000 })),
  },
  {
    name: "no retry budget for all destinations",
    caughtBy: "retry budget kept",
    foundBy: 7,
    retryBudget: false,
  },
  {
    name: "guard state lost at a restart",
    caughtBy: "retry budget kept",
    wrapMemory: (memory) => ({
      ...memory,
      documents: {
        ...memory.documents,
        get: async () => null,
        getMany: async (_, keys) => keys.map(() => null),
        list: async () => ({ documents: [], cursor: null }),
      },
    }),
  },
  {
    name: "guard state not saved at a stop",
    caughtBy: "retry budget kept",
    wrapStore: (observed) => ({
      ...observed,
      commitNow: (batch) =>
        observed.commitNow({ ...batch, documents: hasOnlyDocuments(batch) ? [] : batch.documents }),
    }),
  },
  {
    name: "a callback for a fenced settle",
    caughtBy: "one callback for each end",
    wrapMemory: (memory) => ({
      ...memory,
      commitNow(batch) {
        const result = memory.commitNow(batch);
        const fenced = batch.settles.filter((_, index) => result.settles[index] === "fenced");
        const creates = fenced.flatMap(({ status, onEnd }) =>
          status === "PENDING" ? [] : duplicateCreate(onEnd?.[status]?.[0], batch.now),
        );
        memory.commitNow({ ...emptyBatch(batch), creates });
        return result;
      },
    }),
  },
  {
    name: "no callback for a cancel",
    caughtBy: "one callback for each end",
    wrapMemory: (memory) => ({
      ...memory,
      commitNow: (batch) =>
        memory.commitNow({
          ...batch,
          cancels: batch.cancels.map(({ tenantId, taskId }) => ({ tenantId, taskId })),
        }),
    }),
  },
  {
    name: "a dead letter not marked as redriven",
    caughtBy: "redriven once",
    wrapMemory: (memory) => ({
      ...memory,
      commitNow: (batch) =>
        memory.commitNow({
          ...batch,
          creates: batch.creates.map((create) => ({
            ...create,
            task: { ...create.task, redrivenFrom: null },
          })),
        }),
    }),
  },
  {
    name: "claims for the tenant with the largest backlog only",
    caughtBy: "tenants take turns",
    foundBy: 7,
    wrapStore: (observed, memory) => ({
      ...observed,
      commitNow(batch) {
        const largest = largestTenant(batch);
        const isKept = ({ tenantId }: ClaimRequest) => tenantId === largest;
        const result = observed.commitNow({ ...batch, claims: batch.claims.filter(isKept) });
        const kept = [...result.claims];
        const claims = batch.claims.map(
          (claim) => (isKept(claim) ? kept.shift() : undefined) ?? unclaimed(memory, claim),
        );
        return { ...result, claims };
      },
    }),
  },
  {
    name: "documents that have no effect",
    caughtBy: "limits kept",
    foundBy: 10,
    wrapStore: (observed) => ({
      ...observed,
      getDestination: async (...ref) => withoutDocument(await observed.getDestination(...ref)),
      commitNow(batch) {
        // A node that does not know the document must not remove it: another checker would see that.
        const writes = batch.destinations.map(({ row }) => {
          const stored = observed.peekDestination(row.tenantId, row.name);
          return { row: { ...row, document: row.document ?? stored?.document ?? null } };
        });
        const { destinations, creates, claims, ...result } = observed.commitNow({
          ...batch,
          destinations: writes,
        });
        return {
          ...result,
          destinations: destinations.map(withoutDocument),
          creates: creates.map((create) =>
            create.kind === "created" ? { ...create, row: withoutDocument(create.row) } : create,
          ),
          claims: claims.map((claim) => ({ ...claim, row: withoutDocument(claim.row) })),
        };
      },
    }),
  },
  ...fleetMutants,
];

/** The tenant that the batch claims the most lanes of. */
function largestTenant({ claims }: Batch): string | undefined {
  const counts = new Map<string, number>();
  for (const { tenantId } of claims) counts.set(tenantId, (counts.get(tenantId) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0];
}

/** The result of a claim that found no task yet. */
function unclaimed(
  memory: MemoryStore,
  { tenantId, destination, lane, partitions }: ClaimRequest,
): ClaimResult {
  const isOwn = (task: RetryTask) =>
    task.tenantId === tenantId && task.destination === destination && task.lane === lane;
  const waiting = memory.all().filter((task) => task.status === "PENDING" && isOwn(task));
  const nextDueAts = partitions.map((partition) => {
    const own = waiting.filter(
      ({ taskId }) => partitionOf(taskId, memory.partitions) === partition,
    );
    const dueAts = own.map(({ nextAttemptAt }) => nextAttemptAt);
    return dueAts.length > 0 ? Math.min(...dueAts) : null;
  });
  return { tasks: [], nextDueAts, row: null };
}

/** Whether the batch only saves guard state. */
function hasOnlyDocuments({
  destinations,
  creates,
  settles,
  cancels,
  retryNows,
  claims,
}: Batch): boolean {
  const parts = [destinations, creates, settles, cancels, retryNows, claims];
  return parts.every(({ length }) => length === 0);
}

/** The same task with another id. */
/** The instant makes the ids differ if a settle is fenced several times. */
function duplicateCreate(task: NewTask | undefined, now: number): readonly Create[] {
  if (task === undefined) return [];
  const duplicate = { ...task, taskId: `${task.taskId}-duplicate-${now}` };
  return [{ task: duplicate, fingerprint: null, claimVersion: null }];
}

/** The row without its document. */
function withoutDocument(row: DestinationRow | null): DestinationRow | null {
  return row && { ...row, document: null };
}

/** A batch of the same node and instant, without any work. */
function emptyBatch({ now, nodeId }: Batch): Batch {
  return { now, nodeId, ...EMPTY_BATCH };
}

/** Marks tasks that were claimed ahead of time as due now. */
function asIfDue(claim: ClaimResult, now: number): ClaimResult {
  const markDue = (task: StartedTask) => ({
    ...task,
    nextAttemptAt: Math.min(task.nextAttemptAt, now),
  });
  return { ...claim, tasks: claim.tasks.map(markDue) };
}

/** The node does not learn that the claimed tasks were abandoned before. */
function asIfNeverAbandoned(claim: ClaimResult): ClaimResult {
  return { ...claim, tasks: claim.tasks.map((task) => ({ ...task, abandonedCount: 0 })) };
}

/** Returns the tasks that the claims would start, and stores none of the claims. */
function claimsBeforeCommit(memory: MemoryStore, batch: Batch): CommitResult["claims"] {
  const { claims } = memory.commitNow({ ...emptyBatch(batch), claims: batch.claims });
  const settles = claims.flatMap(({ tasks }) =>
    tasks.map((task) => releaseOf(task, task.nextAttemptAt)),
  );
  memory.commitNow({ ...emptyBatch(batch), settles });
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
