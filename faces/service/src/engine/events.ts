/**
 * Engine events: publishes what happens in the engine to listeners, and keeps the latest events in
 * a ring, so that a reader that was disconnected can continue where it stopped.
 */
import { type HoldReason, statusText } from "@redrive/core";
import type { Reading } from "../model/stored-documents.ts";
import type { AttemptWait, Headers } from "../model/task.ts";
import type { EngineTime } from "../time/engine-time.ts";

/** May be async. */
export type EventListener = (event: EngineEvent) => unknown;

const RING_SIZE = 10_000;

export class EngineEvents {
  readonly #nodeId: string;
  readonly #listeners = new Set<EventListener>();
  readonly #ring = new EventRing(RING_SIZE);
  #count = 0;

  constructor(nodeId: string) {
    this.#nodeId = nodeId;
  }

  /**
   * The body itself becomes the event, so the caller must not use it again. A copy made by spread
   * would create a new hidden class for every event (docs/decisions/0012).
   */
  emit(at: number, body: EngineEventBody): void {
    this.#ring.put(++this.#count, at, body);
    if (this.#listeners.size === 0) return;
    const event = body as { -readonly [field in keyof EngineEvent]: EngineEvent[field] };
    event.id = `${this.#nodeId}-${this.#count}`;
    event.at = at;
    for (const listener of this.#listeners) notify(listener, event);
  }

  /** Returns a function that removes the listener. */
  listen(listener: EventListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The number of the latest event; 0: there was none yet. */
  get latest(): number {
    return this.#count;
  }

  /** The number of the event with that id; undefined if the ring does not have it. */
  numberOf(id: string): number | undefined {
    const number = Number(id.slice(id.lastIndexOf("-") + 1));
    const isKnown = number > this.#count - RING_SIZE && number <= this.#count;
    return isKnown && this.idOf(number) === id ? number : undefined;
  }

  /** The events after that number, at most `limit`. Undefined: the ring has lost some of them. */
  read(after: number, limit: number): readonly EngineEvent[] | undefined {
    if (after < this.#count - RING_SIZE) return undefined;
    return Array.from({ length: Math.min(limit, this.#count - after) }, (_, index) => {
      const next = after + 1 + index;
      return this.#ring.get(next, this.idOf(next));
    });
  }

  /** The events after the given id; undefined if the ring no longer has that event. */
  after(id: string): readonly EngineEvent[] | undefined {
    const number = this.numberOf(id);
    return number === undefined ? undefined : this.read(number, RING_SIZE);
  }

  /** `<node>-<number>`. */
  idOf(number: number): string {
    return `${this.#nodeId}-${number}`;
  }
}

/**
 * Calls a listener. If it throws or rejects, the error goes to the console, as in the library: it
 * must not stop the engine, end the host process or be lost.
 */
function notify(listener: EventListener, event: EngineEvent): void {
  try {
    const result = listener(event) as Partial<PromiseLike<unknown>> | undefined;
    result?.then?.(undefined, report);
  } catch (error) {
    report(error);
  }
}

function report(error: unknown): void {
  console.error("redrive:", error);
}

// Engine event: the events that the engine publishes, as plain data.

export type EngineEventType =
  | "task.created"
  | "task.succeeded"
  | "task.exhausted"
  | "task.cancelled"
  | "attempt.started"
  | "attempt.failed"
  | "attempt.fenced"
  | "attempt.abandoned"
  | "destination.changed"
  | "breaker.opened"
  | "breaker.closed"
  | "store.failed"
  | "store.recovered"
  | "store.refused"
  | "store.messages-unreadable"
  | "clock.following"
  | "clock.ahead"
  | "clock.refused"
  | "clock.synced"
  | "secret.unavailable"
  | "document.unreadable"
  | "document.fields-ignored"
  | "node.lease-lost"
  | "node.shortage"
  | "node.failed";

export interface EngineEvent {
  /** `<node>-<number>`, in order within a node. */
  readonly id: string;
  readonly at: number;
  readonly type: EngineEventType;
  readonly tenantId?: string;
  readonly taskId?: string;
  readonly destination?: string;
  /** The labels of the task; absent if it has none. */
  readonly labels?: Headers;
  /** Of the attempt. At the end of a task: how many it has made, 0 if none. */
  readonly attemptNumber?: number;
  /** The reason: a stop reason, a gate, or an error message. */
  readonly reason?: string;
  /** With the reason `held`: the guard that held the task until its time ran out. */
  readonly by?: HoldReason;
  /** Epoch ms. */
  readonly nextAttemptAt?: number;
  readonly policyId?: string;
  /** When the task was created; epoch ms. */
  readonly createdAt?: number;
  /** For an attempt that is about to start: how long after its due instant. */
  readonly lagMs?: number;
  /** For an attempt that is about to start: the guard that held it after it was due, if any. */
  readonly heldBy?: HoldReason;
  /** For an attempt that starts late or has ended: its waits after it was due. Default: none. */
  readonly waits?: readonly AttemptWait[];
  /** For an attempt that has ended. */
  readonly attempt?: AttemptSummary;
}

export interface AttemptSummary {
  /** The kind of core's `Outcome`. */
  readonly outcome: string;
  readonly responseStatus: number | null;
  readonly errorClass: string | null;
  readonly durationMs: number;
  readonly nextDelayMs: number | null;
  readonly delaySource: string | null;
  /** From the response to the commit of its settlement. */
  readonly settleMs: number;
}

export type EngineEventBody = Omit<EngineEvent, "id" | "at">;

/** An event body under construction. Its emitter passes it on and does not use it again. */
export type WritableEventBody = {
  -readonly [field in keyof EngineEventBody]: EngineEventBody[field];
};

/** The labels for an event; undefined if there are none. */
export function eventLabels(labels: Headers): Headers | undefined {
  // biome-ignore lint/suspicious/useGuardForIn: finds out whether there is a label without a list of them
  for (const _ in labels) return labels;
  return undefined;
}

// Event ring: the latest events of a node. It allocates its memory in blocks, when they are first used:
// 10,000 events take 1.6 MB, and most processes that restart often never have that many.

const BLOCK_SIZE = 100;

class EventRing {
  readonly #size: number;
  readonly #blocks: EventColumns[] = [];

  /** `size`: the number of events to keep, a multiple of 100. */
  constructor(size: number) {
    if (size % BLOCK_SIZE !== 0)
      throw new RangeError(`size ${size} is no multiple of ${BLOCK_SIZE}`);
    this.#size = size;
  }

  /** Writes event `number`, from 1, over the event that is `size` older. Numbers arrive in order. */
  put(number: number, at: number, event: EngineEventBody): void {
    const place = number % this.#size;
    const index = Math.floor(place / BLOCK_SIZE);
    this.#blocks[index] ??= new EventColumns(BLOCK_SIZE);
    this.#blocks[index].put(place % BLOCK_SIZE, at, event);
  }

  /** The event with that number, which must be one of the latest `size`. */
  get(number: number, id: string): EngineEvent {
    const place = number % this.#size;
    const block = this.#blocks[Math.floor(place / BLOCK_SIZE)];
    if (block === undefined) throw new RangeError(`event ${number} was never put`);
    return block.get(place % BLOCK_SIZE, id);
  }
}

// Event columns: a fixed number of events, stored in columns. As objects, each attempt would keep about a
// dozen young objects alive for seconds, and moving them caused most of the garbage collector's
// pauses under load. In columns they are numbers in place and a few strings.

/** Numbers that may be absent (event) or null (attempt). NaN stands for both. */
const NUMBERS = ["attemptNumber", "nextAttemptAt", "createdAt", "lagMs"] as const;
const ATTEMPT_NUMBERS = ["responseStatus", "durationMs", "nextDelayMs", "settleMs"] as const;
const TEXTS = ["tenantId", "taskId", "destination", "reason", "by", "heldBy", "policyId"] as const;
const ATTEMPT_TEXTS = ["outcome", "errorClass", "delaySource"] as const;

type Columns<Name extends string, Column> = { readonly [name in Name]: Column };

class EventColumns {
  readonly #at: Float64Array;
  readonly #types: EngineEventType[];
  readonly #numbers: Columns<(typeof NUMBERS)[number], Float64Array>;
  readonly #attemptNumbers: Columns<(typeof ATTEMPT_NUMBERS)[number], Float64Array>;
  /** Undefined for most events. */
  readonly #waits: EngineEventBody["waits"][];
  readonly #labels: EngineEventBody["labels"][];
  readonly #texts: Columns<(typeof TEXTS)[number], (string | undefined)[]>;
  readonly #attemptTexts: Columns<(typeof ATTEMPT_TEXTS)[number], (string | null | undefined)[]>;

  /** `size`: the number of events. */
  constructor(size: number) {
    const numbers = () => new Float64Array(size);
    const texts = () => new Array(size).fill(undefined);
    this.#at = numbers();
    this.#types = new Array(size).fill("task.created");
    this.#waits = texts();
    this.#labels = texts();
    this.#numbers = columnsOf(NUMBERS, numbers);
    this.#attemptNumbers = columnsOf(ATTEMPT_NUMBERS, numbers);
    this.#texts = columnsOf(TEXTS, texts);
    this.#attemptTexts = columnsOf(ATTEMPT_TEXTS, texts);
  }

  /** Writes an event over the one in that slot. */
  put(slot: number, at: number, event: EngineEventBody): void {
    this.#at[slot] = at;
    this.#types[slot] = event.type;
    const numbers = this.#numbers;
    numbers.attemptNumber[slot] = event.attemptNumber ?? Number.NaN;
    numbers.nextAttemptAt[slot] = event.nextAttemptAt ?? Number.NaN;
    numbers.createdAt[slot] = event.createdAt ?? Number.NaN;
    numbers.lagMs[slot] = event.lagMs ?? Number.NaN;
    const texts = this.#texts;
    texts.tenantId[slot] = event.tenantId;
    texts.taskId[slot] = event.taskId;
    texts.destination[slot] = event.destination;
    texts.reason[slot] = event.reason;
    texts.by[slot] = event.by;
    texts.heldBy[slot] = event.heldBy;
    texts.policyId[slot] = event.policyId;
    this.#waits[slot] = event.waits;
    this.#labels[slot] = event.labels;
    this.#attemptTexts.outcome[slot] = event.attempt?.outcome;
    if (event.attempt !== undefined) this.#putAttempt(slot, event.attempt);
  }

  #putAttempt(slot: number, attempt: AttemptSummary): void {
    this.#attemptTexts.errorClass[slot] = attempt.errorClass;
    this.#attemptTexts.delaySource[slot] = attempt.delaySource;
    const numbers = this.#attemptNumbers;
    numbers.responseStatus[slot] = attempt.responseStatus ?? Number.NaN;
    numbers.durationMs[slot] = attempt.durationMs;
    numbers.nextDelayMs[slot] = attempt.nextDelayMs ?? Number.NaN;
    numbers.settleMs[slot] = attempt.settleMs;
  }

  /** The event in that slot, with its id. */
  get(slot: number, id: string): EngineEvent {
    const event: Record<string, unknown> = { id, at: this.#at[slot], type: this.#types[slot] };
    for (const name of TEXTS) {
      const text = this.#texts[name][slot];
      if (text !== undefined) event[name] = text;
    }
    for (const name of NUMBERS) {
      const value = this.#numbers[name][slot] ?? Number.NaN;
      if (!Number.isNaN(value)) event[name] = value;
    }
    const labels = this.#labels[slot];
    if (labels !== undefined) event["labels"] = labels;
    const waits = this.#waits[slot];
    if (waits !== undefined) event["waits"] = waits;
    const attempt = this.#attempt(slot);
    if (attempt !== undefined) event["attempt"] = attempt;
    return event as unknown as EngineEvent;
  }

  #attempt(slot: number): AttemptSummary | undefined {
    const { outcome, errorClass, delaySource } = this.#attemptTexts;
    const { responseStatus, durationMs, nextDelayMs, settleMs } = this.#attemptNumbers;
    const kind = outcome[slot];
    if (kind === undefined || kind === null) return undefined;
    return {
      outcome: kind,
      responseStatus: orNull(responseStatus[slot]),
      errorClass: errorClass[slot] ?? null,
      durationMs: durationMs[slot] ?? 0,
      nextDelayMs: orNull(nextDelayMs[slot]),
      delaySource: delaySource[slot] ?? null,
      settleMs: settleMs[slot] ?? 0,
    };
  }
}

function columnsOf<Name extends string, Column>(
  names: readonly Name[],
  create: () => Column,
): Columns<Name, Column> {
  return Object.fromEntries(names.map((name) => [name, create()])) as Columns<Name, Column>;
}

function orNull(value: number | undefined): number | null {
  return value === undefined || Number.isNaN(value) ? null : value;
}

// Attempt outcome: the outcome of an attempt as one of a few words, for metrics.

/** `success`, the class of an HTTP status such as `5xx`, a gRPC code, a class of errors, or a kind. */
export function outcomeLabel({ outcome, responseStatus, errorClass }: AttemptSummary): string {
  if (outcome === "status" && responseStatus !== null)
    return `${Math.floor(responseStatus / 100)}xx`;
  if (outcome === "grpc" && responseStatus !== null) return statusText(responseStatus);
  return errorClass ?? outcome;
}

// Document reports: publishes an event for each stored document that this version cannot read, or
// reads without some of its fields. Each one is reported once, and listed until it is readable.

/** A full list is cleared, and its documents are reported again when they are read again. */
const MAX_REPORTS = 1000;

export interface DocumentName {
  readonly kind: "policy" | "destination" | "redrive";
  readonly tenantId: string;
  readonly name: string;
  /** Of a policy. */
  readonly version?: number;
}

export interface UnreadableDocument extends DocumentName {
  readonly reason: string;
}

export class DocumentReports {
  readonly #time: EngineTime;
  readonly #events: EngineEvents;
  readonly #unreadable = new Map<string, UnreadableDocument>();
  readonly #ignored = new Map<string, string>();

  constructor(time: EngineTime, events: EngineEvents) {
    this.#time = time;
    this.#events = events;
  }

  /** The documents that could not be read when they were last used. At most 1000. */
  unreadable(): readonly UnreadableDocument[] {
    return [...this.#unreadable.values()];
  }

  record(document: DocumentName, reading: Reading<unknown>): void {
    const key = keyOf(document);
    if (reading.kind === "unreadable") this.#recordUnreadable(key, document, reading.reason);
    else {
      this.#unreadable.delete(key);
      if (reading.ignored.length > 0) this.#recordIgnored(key, document, reading.ignored);
    }
  }

  #recordUnreadable(key: string, document: DocumentName, reason: string): void {
    if (this.#unreadable.get(key)?.reason === reason) return;
    if (this.#unreadable.size >= MAX_REPORTS) this.#unreadable.clear();
    this.#unreadable.set(key, { ...document, reason });
    this.#emit("document.unreadable", document, `${titleOf(document)} cannot be read: ${reason}`);
  }

  #recordIgnored(key: string, document: DocumentName, fields: readonly string[]): void {
    const names = fields.join(", ");
    if (this.#ignored.get(key) === names) return;
    if (this.#ignored.size >= MAX_REPORTS) this.#ignored.clear();
    this.#ignored.set(key, names);
    this.#emit("document.fields-ignored", document, `${titleOf(document)}: ${names}`);
  }

  #emit(type: WritableEventBody["type"], document: DocumentName, reason: string): void {
    const { kind, tenantId, name } = document;
    const event: WritableEventBody = { type, tenantId, reason };
    if (kind === "policy") event.policyId = name;
    if (kind === "destination") event.destination = name;
    this.#events.emit(this.#time.now(), event);
  }
}

function keyOf({ kind, tenantId, name, version = 0 }: DocumentName): string {
  return [kind, tenantId, name, version].join("\n");
}

/** For example: version 2 of policy "x". */
function titleOf({ kind, name, version }: DocumentName): string {
  const title = `${kind} ${JSON.stringify(name)}`;
  return version === undefined ? title : `version ${version} of ${title}`;
}
