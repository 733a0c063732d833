/**
 * Activity recorder: counts what happened in the last hour, per minute, for each tenant and each
 * destination. The counts of tenants are saved every minute under the id of the node, so that a
 * reader gets those of all nodes, and those from before a restart. The counts of destinations are of
 * this node, and stay in memory.
 */
import type { Cancel, Clock } from "@redrive/core";
import type { EngineEvent } from "../../engine/events/engine-event.ts";
import type { EngineEvents } from "../../engine/events/engine-events.ts";
import { type Batch, EMPTY_BATCH } from "../../model/batch.ts";
import type { UnversionedDocument } from "../../model/document-table.ts";
import type { Store } from "../../model/store.ts";
import {
  type Activity,
  activityOf,
  addAll,
  DESTINATION_MEASURES,
  type DestinationMeasure,
  savedOf,
  TENANT_MEASURES,
  type TenantMeasure,
} from "./activity-counts.ts";
import { MINUTE_MS, MINUTES, MinuteCounts, minuteOf } from "./minute-counts.ts";
import { type RecentAttempts, recentAttempts } from "./recent-attempts.ts";
import { decodeActivity, encodeActivity } from "./saved-activity.ts";

export interface ActivitySource {
  readonly clock: Clock;
  readonly store: Pick<Store, "commit" | "documents" | "query">;
  readonly engine: {
    readonly nodeId: string;
    readonly events: Pick<EngineEvents, "listen">;
    now(): number;
  };
}

/** The kind of the documents; their ids are those of nodes. */
export const ACTIVITY_DOCUMENT = "activity";

/** Half a megabyte and two megabytes. If there are more, the one that was added first is dropped. */
const MAX_TENANTS = 200;
const MAX_DESTINATIONS = 1000;
/** Documents of one commit, and nodes of which a reader adds up the counts. */
const MAX_DOCUMENTS = 64;

interface TenantCounts {
  readonly counts: MinuteCounts<TenantMeasure>;
  /** Counted since it was saved. */
  isChanged: boolean;
}

export class ActivityRecorder {
  readonly #source: ActivitySource;
  readonly #tenants = new Map<string, TenantCounts>();
  readonly #destinations = new Map<string, MinuteCounts<DestinationMeasure>>();
  #stopListening: Cancel = () => {};
  #cancel: Cancel = () => {};
  #isStarted = false;
  /** The next search for documents of nodes that ended more than an hour ago. */
  #cleanAt = 0;

  constructor(source: ActivitySource) {
    this.#source = source;
  }

  /** Without it, nothing is counted: a process that embeds the service need not pay for it. */
  start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    this.#stopListening = this.#source.engine.events.listen((event) => this.#record(event));
    this.#arm();
  }

  /** Saves the last counts. Never rejects. Safe to call twice. */
  async stop(): Promise<void> {
    if (!this.#isStarted) return;
    this.#isStarted = false;
    this.#stopListening();
    this.#cancel();
    await this.#save(this.#source.engine.now()).catch(() => {});
  }

  #arm(): void {
    const run = () => {
      if (!this.#isStarted) return;
      this.#arm();
      // A failure of the store is reported by the store; the next minute tries again.
      this.runOnce(this.#source.engine.now()).catch(() => {});
    };
    this.#cancel = this.#source.clock.alarm(MINUTE_MS, run, true);
  }

  /** Samples, saves, and removes what is older than an hour. */
  async runOnce(now: number): Promise<void> {
    const { query } = this.#source.store;
    for (const [tenantId, tenant] of this.#tenants) {
      const createdAt = await query.oldestOpen(tenantId);
      if (createdAt === null && isOld(tenant.counts, now)) this.#tenants.delete(tenantId);
      if (createdAt === null) continue;
      tenant.counts.raise(now, "oldestAgeMs", Math.max(0, now - createdAt));
      tenant.isChanged = true;
    }
    for (const [key, counts] of this.#destinations) {
      if (isOld(counts, now)) this.#destinations.delete(key);
    }
    await this.#save(now);
    await this.#clean(now);
  }

  /** The last hour of a tenant, on all nodes. */
  async ofTenant(tenantId: string, now: number): Promise<Activity<TenantMeasure>> {
    const { documents, query } = this.#source.store;
    const page = { tenantId, limit: MAX_DOCUMENTS };
    const [{ documents: all }, createdAt] = await Promise.all([
      documents.list(ACTIVITY_DOCUMENT, page),
      query.oldestOpen(tenantId),
    ]);
    const saved = all
      .filter(({ id }) => id !== this.#source.engine.nodeId)
      .map(({ text }) => decodeActivity(text))
      .filter((one) => one !== undefined);
    const own = this.#tenants.get(tenantId)?.counts ?? new MinuteCounts(TENANT_MEASURES);
    const merged = new MinuteCounts(TENANT_MEASURES);
    for (const one of [...saved, savedOf(own, now)]) addAll(merged, one, now);
    if (createdAt !== null) merged.raise(now, "oldestAgeMs", Math.max(0, now - createdAt));
    return activityOf(merged, now);
  }

  /** The last hour of a destination, on this node. */
  ofDestination(tenantId: string, name: string, now: number): Activity<DestinationMeasure> {
    const counts = this.#destinations.get(keyOf(tenantId, name));
    return activityOf(counts ?? new MinuteCounts(DESTINATION_MEASURES), now);
  }

  /** The last minutes of a destination, on this node. */
  recentOf(tenantId: string, name: string, now: number): RecentAttempts {
    return recentAttempts(this.#destinations.get(keyOf(tenantId, name)), now);
  }

  #record(event: EngineEvent): void {
    const { type, at, tenantId, destination, attemptNumber = 1 } = event;
    if (tenantId === undefined) return;
    const measure = TENANT_MEASURE[type];
    const isRetry = type === "attempt.started" && attemptNumber > 1;
    if (measure !== undefined) {
      const tenant = this.#tenantOf(tenantId);
      tenant.isChanged = true;
      tenant.counts.add(at, measure);
      if (isRetry) tenant.counts.add(at, "retries");
    }
    if (destination === undefined) return;
    if (type === "attempt.started") {
      const counts = this.#destinationOf(tenantId, destination);
      counts.add(at, "attempts");
      if (isRetry) counts.add(at, "retries");
    } else if (FAILURES.has(type) && event.attempt !== undefined) {
      this.#destinationOf(tenantId, destination).add(at, "failed");
    }
  }

  #tenantOf(tenantId: string): TenantCounts {
    return found(this.#tenants, tenantId, MAX_TENANTS, () => ({
      counts: new MinuteCounts(TENANT_MEASURES),
      isChanged: false,
    }));
  }

  #destinationOf(tenantId: string, name: string): MinuteCounts<DestinationMeasure> {
    const create = () => new MinuteCounts(DESTINATION_MEASURES);
    return found(this.#destinations, keyOf(tenantId, name), MAX_DESTINATIONS, create);
  }

  async #save(now: number): Promise<void> {
    const { store, engine } = this.#source;
    const { nodeId } = engine;
    const changed = [...this.#tenants].filter(([, { isChanged }]) => isChanged);
    for (let first = 0; first < changed.length; first += MAX_DOCUMENTS) {
      const slice = changed.slice(first, first + MAX_DOCUMENTS);
      const documents = slice.map(([tenantId, tenant]): UnversionedDocument => {
        tenant.isChanged = false;
        const text = encodeActivity(savedOf(tenant.counts, now));
        return { kind: ACTIVITY_DOCUMENT, tenantId, id: nodeId, text };
      });
      const batch: Batch = { now, nodeId, ...EMPTY_BATCH, documents };
      await store.commit(batch).catch((error: unknown) => {
        for (const [, tenant] of slice) tenant.isChanged = true;
        throw error;
      });
    }
  }

  /** Once per hour, because every restart leaves a document. */
  async #clean(now: number): Promise<void> {
    if (now < this.#cleanAt) return;
    const { documents } = this.#source.store;
    let cursor: string | null | undefined;
    while (cursor !== null) {
      const page = await documents.list(ACTIVITY_DOCUMENT, { limit: MAX_DOCUMENTS, cursor });
      for (const { tenantId, id, text } of page.documents) {
        const lastMinute = decodeActivity(text)?.minute ?? Number.NEGATIVE_INFINITY;
        if (lastMinute > minuteOf(now) - MINUTES) continue;
        await documents.remove(ACTIVITY_DOCUMENT, tenantId, id);
      }
      cursor = page.cursor;
    }
    this.#cleanAt = now + MINUTES * MINUTE_MS;
  }
}

const TENANT_MEASURE: Readonly<Partial<Record<EngineEvent["type"], TenantMeasure>>> = {
  "task.created": "created",
  "attempt.started": "attempts",
  "task.succeeded": "succeeded",
  "task.exhausted": "deadLetters",
  "task.cancelled": "canceled",
};

/** Ends of a failed attempt. A dead letter without an attempt ended while a guard held it. */
const FAILURES: ReadonlySet<EngineEvent["type"]> = new Set(["attempt.failed", "task.exhausted"]);

function keyOf(tenantId: string, name: string): string {
  return `${tenantId}\n${name}`;
}

function isOld({ minute }: MinuteCounts<string>, now: number): boolean {
  return minute <= minuteOf(now) - MINUTES;
}

/** Drops the first entry of a full map. */
function found<Value>(
  map: Map<string, Value>,
  key: string,
  maxEntries: number,
  create: () => Value,
): Value {
  const known = map.get(key);
  if (known !== undefined) return known;
  if (map.size >= maxEntries) map.delete(map.keys().next().value as string);
  const value = create();
  map.set(key, value);
  return value;
}
