/**
 * Events: what happens in the engine, told to whoever listens and kept in a ring, so that a reader
 * who was away can go on where it stopped.
 */
import type { HoldReason } from "@redrive/core";
import { EventRing } from "./event-ring.ts";

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
  | "store.failed"
  | "store.recovered"
  | "node.lease-lost"
  | "node.failed";

export interface EngineEvent {
  /** `<node>-<number>`, in order within a node. */
  readonly id: string;
  readonly at: number;
  readonly type: EngineEventType;
  readonly tenantId?: string;
  readonly taskId?: string;
  readonly destination?: string;
  readonly attemptNumber?: number;
  /** Why: a stop reason, a gate, an error's message. */
  readonly reason?: string;
  /** With the reason `held`: the guard that held the task until its time was over. */
  readonly by?: HoldReason;
  /** Epoch ms. */
  readonly nextAttemptAt?: number;
  readonly policyId?: string;
  /** When the task was created; epoch ms. */
  readonly createdAt?: number;
  /** Of an attempt that is about to start: how long after it was due. */
  readonly lagMs?: number;
  /** Of an attempt that is about to start: the guard that held it after it was due, if one did. */
  readonly heldBy?: HoldReason;
  /** Of an attempt that has ended. */
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
  /** From the answer to the commit of what follows from it. */
  readonly settleMs: number;
}

export type EngineEventBody = Omit<EngineEvent, "id" | "at">;

const RING_SIZE = 10_000;

export class EngineEvents {
  readonly #nodeId: string;
  readonly #listeners = new Set<(event: EngineEvent) => void>();
  readonly #ring = new EventRing(RING_SIZE);
  #count = 0;

  constructor(nodeId: string) {
    this.#nodeId = nodeId;
  }

  /**
   * The body becomes the event, and is no longer its maker's: a copy with two fields more, made by
   * spreading, would leave a hidden class of its own behind for every event (docs/decisions/0012).
   */
  emit(at: number, body: EngineEventBody): void {
    this.#ring.put(++this.#count, at, body);
    if (this.#listeners.size === 0) return;
    const event = body as { -readonly [field in keyof EngineEvent]: EngineEvent[field] };
    event.id = this.#idOf(this.#count);
    event.at = at;
    for (const listener of this.#listeners) notify(listener, event);
  }

  /** Returns what ends the listening. */
  listen(listener: (event: EngineEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** What came after the event of that id; undefined if the ring no longer knows it. */
  after(id: string): readonly EngineEvent[] | undefined {
    const number = Number(id.slice(id.lastIndexOf("-") + 1));
    const isKnown = number > Math.max(0, this.#count - RING_SIZE) && number <= this.#count;
    if (!isKnown || this.#idOf(number) !== id) return undefined;
    return Array.from({ length: this.#count - number }, (_, index) => {
      const next = number + 1 + index;
      return this.#ring.get(next, this.#idOf(next));
    });
  }

  #idOf(number: number): string {
    return `${this.#nodeId}-${number}`;
  }
}

/**
 * What a listener throws must not keep the engine from its work, nor be lost: it becomes an
 * unhandled rejection, which hosts report.
 */
function notify(listener: (event: EngineEvent) => void, event: EngineEvent): void {
  try {
    listener(event);
  } catch (error) {
    void Promise.reject(error);
  }
}
