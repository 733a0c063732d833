/**
 * Activity: counts what happened in the last hour, per minute, for each tenant and each
 * destination. The counts of tenants are saved every minute under the id of the node, so that a
 * reader gets those of all nodes, and those from before a restart. The counts of destinations are of
 * this node, and stay in memory.
 */
import { type Cancel, type Clock, isObject } from "@redrive/core";
import type { EngineEvent, EngineEvents } from "../engine/events.ts";
import { type Batch, EMPTY_BATCH } from "../model/batch.ts";
import type { UnversionedDocument } from "../model/document-table.ts";
import type { Store } from "../model/store.ts";

interface ActivitySource {
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
      const tenant = this.#tenants.get(tenantId) ?? this.#addTenant(tenantId);
      tenant.isChanged = true;
      tenant.counts.add(at, measure);
      if (isRetry) tenant.counts.add(at, "retries");
    }
    if (destination === undefined) return;
    if (type === "attempt.started") {
      const counts =
        this.#destinations.get(keyOf(tenantId, destination)) ??
        this.#addDestination(tenantId, destination);
      counts.add(at, "attempts");
      if (isRetry) counts.add(at, "retries");
    } else if (FAILURES.has(type) && event.attempt !== undefined) {
      const known = this.#destinations.get(keyOf(tenantId, destination));
      (known ?? this.#addDestination(tenantId, destination)).add(at, "failed");
    }
  }

  #addTenant(tenantId: string): TenantCounts {
    const tenant = { counts: new MinuteCounts(TENANT_MEASURES), isChanged: false };
    return added(this.#tenants, tenantId, MAX_TENANTS, tenant);
  }

  #addDestination(tenantId: string, name: string): MinuteCounts<DestinationMeasure> {
    const counts = new MinuteCounts(DESTINATION_MEASURES);
    return added(this.#destinations, keyOf(tenantId, name), MAX_DESTINATIONS, counts);
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
function added<Value>(map: Map<string, Value>, key: string, max: number, value: Value): Value {
  if (map.size >= max) map.delete(map.keys().next().value as string);
  map.set(key, value);
  return value;
}

/** The attempts of a destination in the last five minutes, on this node. */
export interface RecentAttempts {
  readonly attempts: number;
  readonly failed: number;
  /** At least half of them failed, and not only one or two. */
  readonly failing: boolean;
}

const RECENT_MINUTES = 5;
const MIN_FAILED = 3;

/** Whether a destination fails, from the counts of its last minutes. */
function recentAttempts(
  counts: MinuteCounts<DestinationMeasure> | undefined,
  now: number,
): RecentAttempts {
  const attempts = counts?.sumOf("attempts", now, RECENT_MINUTES) ?? 0;
  const failed = counts?.sumOf("failed", now, RECENT_MINUTES) ?? 0;
  return { attempts, failed, failing: failed >= MIN_FAILED && failed * 2 >= attempts };
}

/** `oldestAgeMs` is sampled once per minute; the others count events. */
export const TENANT_MEASURES = [
  "created",
  "attempts",
  "retries",
  "succeeded",
  "deadLetters",
  "canceled",
  "oldestAgeMs",
] as const;
export type TenantMeasure = (typeof TENANT_MEASURES)[number];

export const DESTINATION_MEASURES = ["attempts", "retries", "failed"] as const;
export type DestinationMeasure = (typeof DESTINATION_MEASURES)[number];

/** Sixty minutes, the oldest first. The last one is the current minute. */
export interface Activity<Measure extends string> {
  /** The start of the first minute; epoch ms. */
  readonly firstMinuteAt: number;
  readonly minuteMs: number;
  readonly counts: CountsOf<Measure>;
}

/** What is counted per minute, and how the counts of several nodes become one. */
function savedOf(counts: MinuteCounts<TenantMeasure>, now: number): SavedActivity {
  return { minute: minuteOf(now), counts: counts.read(now) };
}

/** Ages are not added up: the oldest task of the fleet is the oldest of all nodes. */
function addAll(merged: MinuteCounts<TenantMeasure>, saved: SavedActivity, now: number): void {
  const first = saved.minute - MINUTES + 1;
  for (const measure of TENANT_MEASURES) {
    for (const [index, count] of (saved.counts[measure] ?? []).entries()) {
      const at = (first + index) * MINUTE_MS;
      // A node whose clock is ahead must not push out the minutes of the others.
      if (count === 0 || at > now) continue;
      if (measure === "oldestAgeMs") merged.raise(at, measure, count);
      else merged.add(at, measure, count);
    }
  }
}

function activityOf<Measure extends string>(
  counts: MinuteCounts<Measure>,
  now: number,
): Activity<Measure> {
  const firstMinuteAt = (minuteOf(now) - MINUTES + 1) * MINUTE_MS;
  return { firstMinuteAt, minuteMs: MINUTE_MS, counts: counts.read(now) };
}

interface SavedActivity {
  /** The number of the last minute. */
  readonly minute: number;
  /** Sixty counts per measure. A measure of another version may be missing. */
  readonly counts: Readonly<Partial<Record<string, readonly number[]>>>;
}

const VERSION = 1;

/** The counts of a tenant on one node, as the text of a stored document. */
function encodeActivity({ minute, counts }: SavedActivity): string {
  return JSON.stringify({ version: VERSION, minute, counts });
}

/** Undefined for the document of another version, which is then not counted. */
function decodeActivity(text: string): SavedActivity | undefined {
  const value = parsed(text);
  if (!isObject(value) || value["version"] !== VERSION) return undefined;
  const { minute, counts } = value;
  if (!Number.isSafeInteger(minute) || !isObject(counts)) return undefined;
  const known = Object.entries(counts).filter(([, list]) => isCounts(list));
  return {
    minute: minute as number,
    counts: Object.fromEntries(known) as SavedActivity["counts"],
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isCounts(list: unknown): boolean {
  return (
    Array.isArray(list) &&
    list.length === MINUTES &&
    list.every((count) => typeof count === "number" && count >= 0)
  );
}

// Minute counts: counts of the last sixty minutes, one per minute and measure, in a ring of fixed
// size. The newest minute is the current one, so it is still growing.

export const MINUTE_MS = 60_000;
export const MINUTES = 60;

/** Counts by measure, the oldest minute first. Every list has `MINUTES` entries. */
type CountsOf<Measure extends string> = Readonly<Record<Measure, readonly number[]>>;

/** The number of the minute that contains an instant. */
export function minuteOf(at: number): number {
  return Math.floor(at / MINUTE_MS);
}

export class MinuteCounts<Measure extends string> {
  readonly #counts: ReadonlyMap<Measure, Float64Array>;
  /** The newest minute that was recorded. */
  #minute = Number.NEGATIVE_INFINITY;

  constructor(measures: readonly Measure[]) {
    this.#counts = new Map(measures.map((measure) => [measure, new Float64Array(MINUTES)]));
  }

  /** The newest minute with a count; -Infinity: there is none. */
  get minute(): number {
    return this.#minute;
  }

  add(at: number, measure: Measure, count = 1): void {
    const minute = Math.floor(at / MINUTE_MS);
    if (minute > this.#minute) this.#moveTo(minute);
    const counts = this.#counts.get(measure);
    if (counts === undefined || minute <= this.#minute - MINUTES) return;
    const slot = slotOfMinute(minute);
    counts[slot] = (counts[slot] as number) + count;
  }

  /** For a measure that is sampled: keeps the largest value of the minute. */
  raise(at: number, measure: Measure, value: number): void {
    this.add(at, measure, 0);
    const minute = minuteOf(at);
    const counts = this.#counts.get(measure);
    if (counts === undefined || !this.#isKept(minute)) return;
    const slot = slotOfMinute(minute);
    counts[slot] = Math.max(counts[slot] as number, value);
  }

  /** The sixty minutes that end with the minute of `now`. */
  read(now: number): CountsOf<Measure> {
    const last = minuteOf(now);
    const lists: Partial<Record<Measure, readonly number[]>> = {};
    for (const [measure, counts] of this.#counts) {
      lists[measure] = Array.from({ length: MINUTES }, (_, index) => {
        const minute = last - MINUTES + 1 + index;
        return this.#isKept(minute) ? (counts[slotOfMinute(minute)] as number) : 0;
      });
    }
    return lists as CountsOf<Measure>;
  }

  /** The sum over the minutes that end with the minute of `now`. */
  sumOf(measure: Measure, now: number, minutes: number): number {
    const last = minuteOf(now);
    const counts = this.#counts.get(measure) ?? [];
    let sum = 0;
    for (let minute = last - minutes + 1; minute <= last; minute++) {
      if (this.#isKept(minute)) sum += counts[slotOfMinute(minute)] as number;
    }
    return sum;
  }

  #isKept(minute: number): boolean {
    return minute <= this.#minute && minute > this.#minute - MINUTES;
  }

  #moveTo(minute: number): void {
    const from = Math.max(this.#minute + 1, minute - MINUTES + 1);
    for (let passed = from; passed <= minute; passed++) {
      for (const counts of this.#counts.values()) counts[slotOfMinute(passed)] = 0;
    }
    this.#minute = minute;
  }
}

/** Also for a clock before 1970. */
function slotOfMinute(minute: number): number {
  return ((minute % MINUTES) + MINUTES) % MINUTES;
}
