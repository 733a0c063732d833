/**
 * World: the environment of the nodes of one seed. It contains the time, the store, the targets,
 * and the observer that reports events to the checkers.
 */
import { type Policy, type PolicyDocument, type Random, resolvePolicy } from "@redrive/core";
import { type AttemptResult, notStarted } from "../../faces/service/src/deliver/attempt.ts";
import type { Deliver } from "../../faces/service/src/engine/runner.ts";
import type { Batch, CommitResult, StartedTask } from "../../faces/service/src/model/batch.ts";
import type { DestinationRow } from "../../faces/service/src/model/destination-row.ts";
import {
  type DocumentKey,
  GUARD_DOCUMENT,
  type StoredDocument,
} from "../../faces/service/src/model/document-table.ts";
import { type NewId, uuidV7 } from "../../faces/service/src/model/ids.ts";
import type { Store } from "../../faces/service/src/model/store.ts";
import { isEnded } from "../../faces/service/src/model/task.ts";
import { wrapped } from "../../faces/service/src/model/wrapped.testing.ts";
import { REDRIVE_KIND, readJob } from "../../faces/service/src/operations/redrive-job.ts";
import {
  type Cut,
  createFaults,
  type Faults,
  faultyStore,
} from "../../faces/service/src/stores/memory/faulty-store.testing.ts";
import {
  type MemoryStore,
  memoryStore,
  type TaskParts,
} from "../../faces/service/src/stores/memory/memory-store.ts";
import { allCheckers, BUSY_TENANT, PROMPT_TENANT, QUIET_TENANT } from "./checkers/all-checkers.ts";
import type { Coverage } from "./coverage.ts";
import { createDiskFaults, type DiskFaults, faultyDiskStore } from "./faulty-disk-store.ts";
import type { SeedFeatures } from "./features.ts";
import type { CheckedEvent, Checker, Committed, Sent } from "./history.ts";
import type { Mutant } from "./mutant.ts";
import { type Refusals, refusingStore } from "./refusing-store.ts";
import { type NodeClock, SimClock } from "./sim-clock.ts";
import { Targets } from "./targets.ts";

export const START_AT = 1_800_000_000_000;
export const TENANT = "tenant";
export { BUSY_TENANT, PROMPT_TENANT, QUIET_TENANT };

/** Short policies, so that remaining tasks end soon after the faults stop. */
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
  /** For callbacks only. */
  callback: { delaysMs: [500, 2000, 5000], attemptTimeoutMs: 1500, totalBudgetMs: 60_000 },
};

const RESOLVED_POLICIES = new Map<string, Policy>(
  Object.entries(POLICIES).map(([id, document]) => [id, resolvePolicy(document)]),
);

/** Each destination stays in one state of health for this long. */
const PHASE_MS = 7000;
const FEW_DESTINATIONS = 4;
const MANY_DESTINATIONS = 50;
/** Rows of destinations that say nothing are removed after this many commits of a fleet. */
const COMMITS_PER_REMOVAL = 8;
const PARTITIONS = 8;

/** Maximum delay of a late store result. */
const MAX_STORE_DELAY_MS = 4000;
/** Every call takes up to this long, if the seed has latency. */
const MAX_LATENCY_MS = 25;
/** A slow read of what is due. */
const SLOW_READ_MS = 2500;

export interface WorldOptions {
  readonly coverage: Coverage;
  readonly mutant?: Mutant;
}

type Check<Event extends CheckedEvent> = NonNullable<Checker[Event]>;
type AnyCheck = (...details: readonly unknown[]) => void;

export class World {
  readonly clock = new SimClock(START_AT);
  readonly targets: Targets;
  readonly #checkers: readonly Checker[];
  readonly #checks = new Map<CheckedEvent, readonly AnyCheck[]>();
  readonly faults: Faults;
  /** Faults of the store of a single node. */
  readonly diskFaults: DiskFaults;
  readonly refusals: Refusals = { refused: 0 };
  /** The store that nodes use, below their faults. */
  readonly store: MemoryStore;
  readonly features: SeedFeatures;
  readonly mutant: Mutant | undefined;
  readonly newId: NewId;
  readonly #memory: MemoryStore;
  readonly #destinations: number;
  readonly #coverage: Coverage;
  #commits = 0;
  /** Redrive jobs that have not ended. */
  readonly #openJobs = new Set<string>();
  /** The first violation. A checker may find it inside a callback of the engine. */
  violation: unknown;

  constructor(random: Random, faultRate: number, features: SeedFeatures, options: WorldOptions) {
    const { coverage, mutant } = options;
    this.#destinations = features.manyDestinations ? MANY_DESTINATIONS : FEW_DESTINATIONS;
    this.targets = new Targets(random.fork("targets"), this.#destinations, START_AT, PHASE_MS);
    this.#checkers = allCheckers(features, (policyId) => policyNamed(policyId).maxAttempts);
    const latencyMs = features.latency ? MAX_LATENCY_MS : 0;
    this.faults = createFaults(faultRate, MAX_STORE_DELAY_MS, latencyMs);
    this.diskFaults = createDiskFaults(faultRate);
    this.features = features;
    this.mutant = mutant;
    this.newId = uuidV7(fillWith(random.fork("ids")));
    this.#coverage = coverage;
    // Few partitions, so that nodes that join and leave exchange most of them.
    const { isSingle } = features;
    const partitions = isSingle ? 1 : PARTITIONS;
    this.#memory = memoryStore({ exclusive: isSingle, partitions, clock: this.clock });
    const mutated = mutant?.wrapMemory?.(this.#memory) ?? this.#memory;
    const observed: MemoryStore = {
      ...mutated,
      documents: {
        ...mutated.documents,
        put: (document) => this.#putDocument(document, mutated),
        getMany: (kind, keys) => this.#getDocuments(kind, keys, mutated),
      },
      commitNow: (batch) => this.#commitNow(batch, mutated),
    };
    this.store = mutant?.wrapStore?.(observed, this.#memory) ?? observed;
  }

  /** The store as one boot of a node sees it; `die` ends that boot. */
  storeOf(clock: NodeClock, random: Random, die: () => void, cutOf: () => Cut | undefined): Store {
    const store = this.features.isSingle
      ? faultyDiskStore(this.store, random, this.diskFaults, die)
      : this.#slowly(
          faultyStore(this.#wakeUpsUntilDeath(clock), clock, random, this.faults, cutOf),
          clock,
        );
    return refusingStore(store, this.refusals);
  }

  #slowly(store: Store, clock: NodeClock): Store {
    if (!this.features.slowReads) return store;
    return wrapped<Store>(store, {
      dueLanes: async (query) => {
        if (!this.targets.isHealed) await clock.sleep(SLOW_READ_MS);
        return store.dueLanes(query);
      },
    });
  }

  /** A process that died has no connection: nothing is sent to it. */
  #wakeUpsUntilDeath(clock: NodeClock): MemoryStore {
    const onWakeUp: Store["onWakeUp"] = (listener) => {
      const wakeUps = this.store.onWakeUp((wakeUp) => {
        if (clock.isDead()) wakeUps.stop();
        else listener(wakeUp);
      });
      return wakeUps;
    };
    return { ...this.store, onWakeUp };
  }

  /** Number of faults so far. */
  faultCount(): number {
    const counts = [...Object.values(this.faults.counts), ...Object.values(this.diskFaults.counts)];
    return counts.reduce((sum, count) => sum + count, this.refusals.refused);
  }

  /** Stops the faults of the store and makes the targets healthy. */
  heal(): void {
    this.faults.rate = 0;
    this.diskFaults.rate = 0;
    this.targets.isHealed = true;
  }

  /** Whether every task and every redrive job has ended. */
  isFinished(): boolean {
    return this.#openJobs.size === 0 && this.rawStore.all().every(({ status }) => isEnded(status));
  }

  async #putDocument(document: StoredDocument, store: MemoryStore): Promise<boolean> {
    const isWritten = await store.documents.put(document);
    if (!isWritten || document.kind !== REDRIVE_KIND) return isWritten;
    const { job } = readJob(document);
    if (job.status === "RUNNING") this.#openJobs.add(document.id);
    else this.#openJobs.delete(document.id);
    this.#coverage.redrive(job.status);
    if (job.status === "DONE") {
      this.check("redriveDone", job, this.#memory);
    }
    return isWritten;
  }

  async #getDocuments(
    kind: string,
    keys: readonly DocumentKey[],
    store: MemoryStore,
  ): Promise<readonly (string | null)[]> {
    const texts = await store.documents.getMany(kind, keys);
    const isRestored = texts.some((text) => text !== null);
    if (kind === GUARD_DOCUMENT && isRestored) this.#coverage.guardsRestored();
    return texts;
  }

  async prepare(): Promise<void> {
    for (const tenantId of [TENANT, BUSY_TENANT, QUIET_TENANT, PROMPT_TENANT]) {
      for (const [policyId, document] of Object.entries(POLICIES)) {
        const policy = { tenantId, policyId, version: 1, createdAt: START_AT };
        await this.#memory.addPolicy({ ...policy, document: JSON.stringify(document) });
      }
    }
  }

  destinationName(draw: number): string {
    return `d${Math.floor(draw * this.#destinations)}`;
  }

  /** The rows of the destinations that have one. */
  destinationRows(): readonly DestinationRow[] {
    const names = Array.from({ length: this.#destinations }, (_, index) => `d${index}`);
    return names.flatMap((name) => this.#memory.peekDestination(TENANT, name) ?? []);
  }

  /** The store without faults, mutants and observer. */
  get rawStore(): MemoryStore {
    return this.#memory;
  }

  #rowsBefore(batch: Batch): ReadonlyMap<string, DestinationRow | undefined> {
    const rows = new Map<string, DestinationRow | undefined>();
    const add = (tenantId: string, name: string) => {
      if (!rows.has(name)) rows.set(name, this.#memory.peekDestination(tenantId, name));
    };
    for (const { destination, tenantId } of batch.claims) add(tenantId, destination);
    for (const { task } of batch.creates) add(task.tenantId, task.destination);
    for (const { row } of batch.destinations) add(row.tenantId, row.name);
    return rows;
  }

  #tasksBefore(batch: Batch): ReadonlyMap<string, TaskParts> {
    const tasks = new Map<string, TaskParts>();
    const add = (tenantId: string, taskId: string) => {
      const task = this.#memory.peekParts(tenantId, taskId);
      if (task !== undefined) tasks.set(taskId, task);
    };
    for (const { tenantId, taskId } of batch.settles) add(tenantId, taskId);
    for (const { tenantId, taskId } of batch.cancels) add(tenantId, taskId);
    for (const { tenantId, taskId } of batch.retryNows) add(tenantId, taskId);
    for (const { task } of batch.creates) {
      if (task.redrivenFrom !== null) add(task.tenantId, task.redrivenFrom);
    }
    return tasks;
  }

  #commitNow(batch: Batch, store: MemoryStore): CommitResult {
    // Far more often than a service does it, and while nodes know those rows and have tasks for them.
    const isDue = !this.features.isSingle && ++this.#commits % COMMITS_PER_REMOVAL === 0;
    if (isDue) this.#memory.forgetRows(this.clock.now());
    const rowsBefore = this.#rowsBefore(batch);
    const tasksBefore = this.#tasksBefore(batch);
    const result = store.commitNow(batch);
    const at = this.clock.now();
    const event: Committed = { at, batch, result, rowsBefore, tasksBefore };
    this.#coverage.committed(event);
    this.check("committed", event);
    return result;
  }

  /** Reports an event to the checkers that want to know it. A violation ends the seed. */
  check<Event extends CheckedEvent>(event: Event, ...details: Parameters<Check<Event>>): void {
    if (this.violation !== undefined) return;
    try {
      // Not as a list: a call with a spread in a loop costs more than most checks.
      const [first, second, third, fourth] = details as readonly unknown[];
      for (const check of this.#checksOf(event)) check(first, second, third, fourth);
    } catch (error) {
      this.violation = error;
    }
  }

  #checksOf(event: CheckedEvent): readonly AnyCheck[] {
    const known = this.#checks.get(event);
    if (known !== undefined) return known;
    const checks = this.#checkers.flatMap((checker) => checker[event] ?? []) as AnyCheck[];
    this.#checks.set(event, checks);
    return checks;
  }

  /** The network between a node and the targets. */
  deliverFrom(nodeId: string, nodeClock: NodeClock, rowOf: RowOf, nowOf: () => number): Deliver {
    const deliver: Deliver = (task, limits, done) => {
      if (nodeClock.isDead()) return;
      const at = this.clock.now();
      const policy = policyNamed(task.policyId);
      const timeoutMs = limits.attemptTimeoutMs;
      const document = rowOf(task)?.document ?? null;
      const sleptMs = nodeClock.sleptMs();
      const event: Sent = {
        at,
        nodeAt: nowOf(),
        nodeId,
        task,
        policy,
        timeoutMs,
        sleptMs,
        document,
      };
      this.check("sent", event);
      const response = this.targets.respond(task.destination, at);
      const isLate = response.afterMs > limits.attemptTimeoutMs;
      const afterMs = isLate ? limits.attemptTimeoutMs : response.afterMs;
      const outcome = isLate ? TIMED_OUT : response.outcome;
      const succeeded = outcome.kind === "success";
      let hasEnded = false;
      const end = (result: AttemptResult) => {
        if (hasEnded) return;
        hasEnded = true;
        this.check("resultReceived", event);
        done(result);
      };
      this.clock.set(afterMs, () => {
        this.check("attemptEnded", event, this.clock.now(), succeeded);
      });
      nodeClock.alarm(afterMs, () => end(resultOf(outcome, afterMs)));
      limits.signal.addEventListener("abort", () => {
        nodeClock.alarm(0, () => end(notStarted({ kind: "aborted" }, null)));
      });
    };
    return this.mutant?.wrapDeliver?.(deliver) ?? deliver;
  }
}

/** Returns the row of a destination that a node has. */
type RowOf = (task: StartedTask) => DestinationRow | undefined;

function fillWith(random: Random): (bytes: Uint8Array) => void {
  return (bytes) => {
    for (let at = 0; at < bytes.length; at++) bytes[at] = Math.floor(random.next() * 256);
  };
}

const TIMED_OUT = { kind: "error", errorClass: "timeout", sent: true } as const;

function resultOf(outcome: AttemptResult["outcome"], durationMs: number): AttemptResult {
  const status =
    outcome.kind === "status" || outcome.kind === "success" ? (outcome.status ?? null) : null;
  return { ...notStarted(outcome, null), status, durationMs };
}

function policyNamed(policyId: string): Policy {
  const policy = RESOLVED_POLICIES.get(policyId);
  if (policy === undefined) throw new Error(`no policy ${policyId}`);
  return policy;
}
