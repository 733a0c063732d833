/**
 * Store steps: random uses of a store as plain values, so that the same steps run on two stores. A
 * step names tasks and claims by the order in which they were made.
 */
import fc from "fast-check";
import type { Batch, Create, Settle, StartedTask, TaskRef } from "../model/batch.ts";
import { blankDestination } from "../model/destination-row.ts";
import { LATE_REPORT } from "../model/node-report.ts";
import { partitionByteOf as byteOf, partitionByteOfKey } from "../model/partition.ts";
import type { Store } from "../model/store.ts";
import { PRESET_VERSION } from "../model/store.ts";
import type { Lane, NewTask } from "../model/task.ts";
import { attemptLog, batch, newTask, partitionsOf, report, T0 } from "./store.testing.ts";
import { KINDS, NODES, normalized, sorted, TENANTS } from "./store-content.testing.ts";

const DESTINATIONS = ["https://one.example.com", "https://two.example.com"] as const;
const KEYS = [null, "k1", "k2"] as const;
const LANES = ["first", "retry", "suspect"] as const satisfies readonly Lane[];
const POLICIES = ["p1", "p2"] as const;
const DAY_MS = 86_400_000;
const LONG_LEASE_MS = DAY_MS;
/** Bytes of partitions. Stores have different numbers of partitions. */
const PARTITION_BYTES = [0, 1, 130] as const;
const MIN_STEPS = 15;
const MAX_STEPS = 40;
/** A settle is for one of the latest claims; older ones have mostly ended. */
const RECENT = 4;

/** Mostly the first of the values, so that many steps meet at the same tasks. */
const mostly = <T>(values: readonly [T, ...T[]]) =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(values[0]) }, fc.constantFrom(...values));

const tenant = mostly(TENANTS);
const destination = mostly(DESTINATIONS);
const lane = fc.constantFrom(...LANES);
const node = fc.constantFrom(...NODES);
const policyId = fc.constantFrom(...POLICIES);
const pick = fc.nat(200);
/** How far a version is from the stored one. */
const versionStep = mostly([0, 1, -1]);
const isRarely = mostly([false, true]);
const rarely = <T>(item: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 4, arbitrary: fc.constant([]) }, fc.tuple(item));
const few = <T>(item: fc.Arbitrary<T>) => fc.array(item, { maxLength: 3 });

const aCreate = fc.record({
  tenantId: tenant,
  destination,
  policyId,
  policyVersion: mostly([PRESET_VERSION, 1, 2]),
  key: mostly(KEYS),
  fingerprint: fc.constantFrom("f", "g"),
  inMs: mostly([0, -5, 3, 20]),
  isClaimed: fc.boolean(),
  versionStep,
  /** For a task without a key. */
  partitionByte: mostly(PARTITION_BYTES),
  /** The number of the task that it redrives. */
  redrives: mostly([null, 1, 2, 3]),
  body: fc.option(fc.uint8Array({ maxLength: 4 })),
});

const aSettle = fc.record({
  claim: pick,
  status: fc.constantFrom("PENDING", "SUCCEEDED", "EXHAUSTED", "CANCELLED"),
  lane,
  inMs: mostly([0, 5, 30]),
  hasAttempt: fc.boolean(),
  abandonedCount: fc.nat(2),
  lastError: fc.option(fc.constant("held"), { nil: undefined }),
  hasFollowUp: fc.boolean(),
});

const aClaim = fc.record({
  tenantId: tenant,
  destination,
  lane: mostly(LANES),
  // One partition each: how a limit is divided among several is open.
  partitionByte: mostly(PARTITION_BYTES),
  limit: fc.integer({ min: 1, max: 4 }),
  aheadMs: fc.integer({ min: -5, max: 10 }),
  aheadLimit: fc.nat(2),
  versionStep,
});

/** `task` is the number of a task; the tenant may be the wrong one. */
const aReference = fc.record({ task: pick, isForeign: isRarely, hasFollowUp: fc.boolean() });

const aRow = fc.record({ tenantId: tenant, destination, versionStep, gateInMs: fc.nat(50) });

const aUse = fc.record({
  limit: fc.integer({ min: 1, max: 5 }),
  wanted: fc.nat(5),
  used: fc.nat(2),
});

const aReport = fc.record({
  tenantId: tenant,
  name: destination,
  version: fc.nat(1),
  calls: fc.nat(9),
  failures: fc.nat(3),
  slowCalls: fc.nat(2),
  demand: fc.nat(3),
  slots: fc.option(aUse),
  retrySlots: fc.option(aUse),
  // Rates depend on the store's clock.
  rate: fc.constant(null),
  retryRate: fc.constant(null),
});

const aDocument = fc.record({
  kind: fc.constantFrom(...KINDS),
  tenantId: tenant,
  id: fc.constantFrom("a", "b"),
  text: fc.constantFrom("1", "2"),
});

const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("commit" as const),
      nodeId: node,
      creates: few(aCreate),
      settles: few(aSettle),
      claims: few(aClaim),
      cancels: rarely(aReference),
      retryNows: rarely(aReference),
      destinations: rarely(aRow),
      documents: rarely(aDocument),
    }),
  },
  fc.record({
    kind: fc.constant("wait" as const),
    ms: fc.constantFrom(1, 10, 500, DAY_MS),
  }),
  fc.record({ kind: fc.constant("put" as const), document: aDocument, version: fc.nat(3) }),
  fc.record({ kind: fc.constant("remove" as const), document: aDocument }),
  fc.record({
    kind: fc.constant("renew" as const),
    nodeId: node,
    // Stores judge leases by their own clocks: a lease has ended, or ends after the test.
    leaseMs: fc.constantFrom(0, LONG_LEASE_MS),
    takesAll: isRarely,
    destinations: few(aReport),
  }),
  fc.record({ kind: fc.constant("retire" as const), nodeId: node }),
  fc.record({ kind: fc.constant("lapsed" as const), nodeId: node }),
  fc.record({
    kind: fc.constant("addPolicy" as const),
    tenantId: tenant,
    policyId,
    version: fc.integer({ min: 1, max: 3 }),
  }),
  fc.record({ kind: fc.constant("removePolicy" as const), tenantId: tenant, policyId }),
  fc.record({
    kind: fc.constant("discard" as const),
    tenantId: tenant,
    tasks: fc.array(pick, { maxLength: 5 }),
  }),
  fc.record({
    kind: fc.constant("sweep" as const),
    endedMs: fc.nat(1000),
    deadMs: fc.nat(1000),
  }),
  fc.record({ kind: fc.constant("removeUnused" as const) }),
);

type StepOf<Arbitrary> = Arbitrary extends fc.Arbitrary<infer Value> ? Value : never;
export type Step = StepOf<typeof step>;
type CommitStep = Extract<Step, { kind: "commit" }>;

export function randomSteps(): fc.Arbitrary<readonly Step[]> {
  return fc.array(step, { minLength: MIN_STEPS, maxLength: MAX_STEPS, size: "max" });
}

/** Runs steps on one store. It knows the tasks and claims that the earlier steps made. */
export class StepRunner {
  readonly #store: Store;
  readonly #tasks: NewTask[] = [];
  readonly #claims: StartedTask[] = [];
  readonly #versions = new Map<string, number>();
  #now = T0;

  constructor(store: Store) {
    this.#store = store;
  }

  async apply(step: Step): Promise<unknown> {
    const store = this.#store;
    const now = this.#now;
    switch (step.kind) {
      case "commit":
        return this.#commit(step);
      case "wait":
        this.#now += step.ms;
        return undefined;
      case "put":
        return store.documents.put({ ...step.document, version: step.version });
      case "remove": {
        const { kind, tenantId, id } = step.document;
        return store.documents.remove(kind, tenantId, id);
      }
      case "renew":
        return this.#renew(step);
      case "retire":
        return store.retire(step.nodeId);
      case "lapsed":
        return this.#lapsed(step.nodeId);
      case "addPolicy": {
        const { tenantId, policyId, version } = step;
        return store.addPolicy({ tenantId, policyId, version, document: "{}", createdAt: now });
      }
      case "removePolicy":
        return store.removePolicy(step.tenantId, step.policyId, now);
      case "discard":
        return store.discard(
          step.tenantId,
          step.tasks.map((at) => this.#ref(at).taskId),
        );
      case "sweep": {
        const { endedMs, deadMs } = step;
        const limit = 1000;
        // How many it visits is open, as long as it is fewer than the limit.
        await store.sweep({ now, endedBefore: now - endedMs, deadBefore: now - deadMs, limit });
        return undefined;
      }
      case "removeUnused": {
        const query = { now, limit: 100 };
        // How many rows there are to remove is open: some stores have rows of counts.
        let { cursor } = await store.removeUnused(query);
        while (cursor !== null) ({ cursor } = await store.removeUnused({ ...query, cursor }));
        return undefined;
      }
    }
  }

  async #renew({ kind: _, nodeId, ...fields }: Extract<Step, { kind: "renew" }>): Promise<unknown> {
    try {
      const { now, ...renewal } = await this.#store.renew(
        report(nodeId, { ...fields, now: this.#now }),
      );
      return { ...renewal, hasClock: now > 0 };
    } catch (error) {
      // The node is retired.
      if (error instanceof Error && error.message.includes(LATE_REPORT)) return LATE_REPORT;
      throw error;
    }
  }

  async #lapsed(nodeId: string): Promise<unknown> {
    const partitions = partitionsOf(this.#store);
    const tasks = await this.#store.lapsed({ nodeId, partitions, limit: 250 });
    return sorted(normalized(tasks) as readonly unknown[]);
  }

  async #commit(step: CommitStep): Promise<unknown> {
    const batch = this.#batch(step);
    const result = await this.#store.commit(batch);
    for (const [index, { row }] of batch.destinations.entries()) {
      if (result.destinations[index] !== null) continue;
      this.#versions.set(`${row.tenantId} ${row.name}`, row.version);
    }
    for (const one of result.creates) {
      if (one.kind === "created" && one.started !== null) this.#claims.push(one.started);
    }
    for (const { tasks } of result.claims) this.#claims.push(...tasks);
    return result;
  }

  #batch(step: CommitStep): Batch {
    const now = this.#now;
    return batch({
      now,
      nodeId: step.nodeId,
      destinations: step.destinations.map(({ tenantId, destination, versionStep, gateInMs }) => ({
        row: {
          ...blankDestination(tenantId, destination),
          version: Math.max(1, this.#version(tenantId, destination) + 1 + versionStep),
          gateUntil: now + gateInMs,
        },
      })),
      creates: step.creates.map((one) => this.#create(one)),
      settles: step.settles.flatMap((one) => this.#settle(one)),
      claims: step.claims.map(({ versionStep, partitionByte, ...claim }) => ({
        ...claim,
        partitions: [partitionByte % this.#store.partitions],
        version: this.#version(claim.tenantId, claim.destination) + versionStep,
      })),
      cancels: step.cancels.map(({ task, isForeign, hasFollowUp }) => ({
        ...this.#ref(task, isForeign),
        ...(hasFollowUp && { onEnd: { CANCELLED: [this.#followUp(this.#ref(task))] } }),
      })),
      retryNows: step.retryNows.map(({ task, isForeign }) => this.#ref(task, isForeign)),
      documents: step.documents,
    });
  }

  #create(one: CommitStep["creates"][number]): Create {
    const redrivenFrom = one.redrives === null ? null : this.#ref(one.redrives).taskId;
    const task = this.#newTask(one.tenantId, partitionByteOf(one, redrivenFrom), {
      destination: one.destination,
      // No policy has the name of a preset.
      policyId: one.policyVersion === PRESET_VERSION ? "background" : one.policyId,
      policyVersion: one.policyVersion,
      idempotencyKey: one.key,
      scheduledAt: this.#now + one.inMs,
      body: one.body,
      redrivenFrom,
    });
    // A redrive uses the key of its source, and has no row in the key table.
    const fingerprint = one.redrives === null && one.key !== null ? one.fingerprint : null;
    const version = this.#version(one.tenantId, one.destination) + one.versionStep;
    return { task, fingerprint, claimVersion: one.isClaimed ? version : null };
  }

  /** Nothing, if there is no claim yet. */
  #settle(one: CommitStep["settles"][number]): readonly Settle[] {
    const recent = this.#claims.slice(-RECENT);
    const claim = recent[one.claim % Math.max(1, recent.length)];
    if (claim === undefined) return [];
    const { tenantId, taskId, ref, claimEpoch, claimedBy, attemptNumber } = claim;
    const { status, lane, abandonedCount, lastError } = one;
    const followUp = () => this.#followUp(claim);
    return [
      {
        ...{ tenantId, taskId, ref, claimEpoch, claimedBy, status, lane, abandonedCount },
        reason: status === "PENDING" ? null : "attempts",
        nextAttemptAt: this.#now + one.inMs,
        lastDelayMs: one.inMs,
        attempt: one.hasAttempt ? attemptLog({ attemptNumber, startedAt: this.#now }) : null,
        ...(lastError !== undefined && { lastError }),
        ...(one.hasFollowUp && {
          onEnd: { [status]: [followUp(), followUp()], CANCELLED: [followUp()] },
        }),
      },
    ];
  }

  /** Ids follow from the order of the steps, so that both stores get the same ones. */
  #newTask(tenantId: string, partitionByte: number, fields: Partial<NewTask> = {}): NewTask {
    const number = String(this.#tasks.length).padStart(12, "0");
    const byte = partitionByte.toString(16).padStart(2, "0");
    const taskId = `01900000-0000-7000-80${byte}-${number}`;
    const times = { createdAt: this.#now, scheduledAt: this.#now };
    const task = newTask({ ...times, ...fields, taskId, tenantId });
    this.#tasks.push(task);
    return task;
  }

  /** A task that is stored when another ends. */
  #followUp({ tenantId, taskId }: TaskRef): NewTask {
    return this.#newTask(tenantId, byteOf(taskId));
  }

  /** The version of the stored row, as the earlier steps left it. */
  #version(tenantId: string, name: string): number {
    return this.#versions.get(`${tenantId} ${name}`) ?? 0;
  }

  #ref(at: number, isForeign = false): TaskRef {
    const task = this.#tasks[at % Math.max(1, this.#tasks.length)];
    const { tenantId, taskId } = task ?? { tenantId: TENANTS[0], taskId: "none" };
    const foreign = TENANTS.find((one) => one !== tenantId) ?? tenantId;
    return { tenantId: isForeign ? foreign : tenantId, taskId };
  }
}

/** Tasks that are stored together, and tasks with the same key, are in one partition. */
function partitionByteOf(
  { tenantId, key, partitionByte }: CommitStep["creates"][number],
  redrivenFrom: string | null,
): number {
  if (redrivenFrom !== null) return byteOf(redrivenFrom);
  return key === null ? partitionByte : partitionByteOfKey(tenantId, key);
}
