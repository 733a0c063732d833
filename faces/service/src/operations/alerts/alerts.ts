/**
 * Alerts: posts to a webhook when dead letters pile up, a breaker opens, tasks are late or the clock is
 * refused, and again when that is over. Each post is a task, so it is retried like any other. In a
 * fleet each node watches its own tasks; alerts of the same kind and time have the same key, so they
 * are posted once.
 */
import { type Cancel, type Clock, formatDuration } from "@redrive/core";
import type { EngineEvent } from "../../engine/events/engine-event.ts";
import { sha256 } from "../../intake/secrets.ts";
import { DEFAULT_TENANT, type NewTask } from "../../model/task.ts";
import { internalTask } from "../internal-task.ts";
import type { ResolvedAlerts } from "./alert-options.ts";
import { EndedWindow } from "./ended-window.ts";

/** What the alerts watch and use. */
export interface AlertSource {
  readonly clock: Clock;
  now(): number;
  onEvent(listener: (event: EngineEvent) => void): () => void;
  /** When the oldest task was due that waits although nothing holds it; Infinity: none waits. */
  oldestDueAt(): number;
  newTaskId(now: number, idempotencyKey: string): string;
  /** Creates the task, unless one with its key exists. */
  create(task: NewTask): Promise<unknown>;
}

export type AlertKind = "dead-letters" | "breaker-open" | "late-tasks" | "clock-refused";

const TEST_SUMMARY = "This is a test: alerts arrive here.";

export interface Firing {
  readonly kind: AlertKind | "test";
  readonly since: number;
  readonly tenantId?: string | undefined;
  readonly destination?: string | undefined;
}

/** How often rates and lateness are checked. */
const CHECK_MS = 10_000;

/** If more breakers are open at once, the first ones are reported. */
const MAX_FIRING = 1000;

/** Of the digest that distinguishes alerts of one kind. */
const PLACE_DIGITS = 16;

/** Alerts that the store could not take yet. They are tried again at each check. */
const MAX_UNSENT = 100;

export class Alerts {
  readonly #options: ResolvedAlerts;
  readonly #source: AlertSource;
  readonly #ended: EndedWindow;
  readonly #firing = new Map<string, Firing>();
  #unsent: NewTask[] = [];
  /** An alert about the receiver of alerts could not be delivered. */
  readonly #ownDestination: string;
  #stopListening: () => void = () => {};
  #cancel: Cancel | undefined;

  constructor(options: ResolvedAlerts, source: AlertSource) {
    this.#options = options;
    this.#source = source;
    this.#ended = new EndedWindow(options.windowMs);
    this.#ownDestination = new URL(options.url).origin;
  }

  start(): void {
    this.#stopListening = this.#source.onEvent((event) => this.#onEvent(event));
    this.#arm();
  }

  stop(): void {
    this.#stopListening();
    this.#cancel?.();
  }

  get options(): ResolvedAlerts {
    return this.#options;
  }

  /** The destination of the tasks that post alerts. */
  get destination(): string {
    return this.#ownDestination;
  }

  /** The alerts that are not over, the oldest first. */
  firing(): readonly Firing[] {
    return [...this.#firing.values()];
  }

  /** Posts a test alert; returns the id of its task once the task is stored. */
  async test(): Promise<string> {
    const now = this.#source.now();
    const task = this.#taskOf("test", { kind: "test", since: now }, TEST_SUMMARY, {});
    await this.#source.create(task);
    return task.taskId;
  }

  #arm(): void {
    const { clock } = this.#source;
    this.#cancel = clock.alarm(
      CHECK_MS,
      () => {
        this.#arm();
        this.check();
      },
      true,
    );
  }

  /** Checks rates and lateness. */
  check(): void {
    const now = this.#source.now();
    const unsent = this.#unsent;
    this.#unsent = [];
    for (const task of unsent) this.#create(task);
    this.#checkDeadLetters(now);
    this.#checkLateness(now);
  }

  #onEvent(event: EngineEvent): void {
    const { type, at, tenantId, destination } = event;
    if (destination === this.#ownDestination) return;
    if (type === "task.succeeded" || type === "task.exhausted") {
      this.#ended.record(at, type === "task.exhausted");
    } else if (type === "breaker.opened") {
      const text = `The breaker of ${destination} is open: its tasks wait.`;
      this.#fire({ kind: "breaker-open", since: at, tenantId, destination }, text);
    } else if (type === "breaker.closed") {
      const text = `The breaker of ${destination} is closed.`;
      this.#resolve({ kind: "breaker-open", since: at, tenantId, destination }, text);
    } else if (type === "clock.refused") {
      const text = `The clock was refused: ${event.reason ?? "it moved too far"}.`;
      this.#fire({ kind: "clock-refused", since: at }, text);
    } else if (type === "clock.synced") {
      this.#resolve({ kind: "clock-refused", since: at }, "The clock is right again.");
    }
  }

  #checkDeadLetters(now: number): void {
    const { deadLetterRatio, windowMs } = this.#options;
    const { ended, dead } = this.#ended.counts(now);
    const text = `${dead} of ${ended} tasks that ended in the last ${formatDuration(windowMs)} became dead letters.`;
    const alert = { kind: "dead-letters", since: now } as const;
    const figures = { value: ended === 0 ? 0 : dead / ended, threshold: deadLetterRatio };
    if (dead > ended * deadLetterRatio) this.#fire(alert, text, figures);
    else this.#resolve(alert, text, figures);
  }

  #checkLateness(now: number): void {
    const { lateMs } = this.#options;
    const isLateMs = Math.max(0, now - this.#source.oldestDueAt());
    const figures = { value: isLateMs, threshold: lateMs };
    const alert = { kind: "late-tasks", since: now } as const;
    if (isLateMs > lateMs) {
      const text = `The oldest due task waits for ${formatDuration(isLateMs)}, although no pause, Retry-After or open breaker holds it.`;
      this.#fire(alert, text, figures);
    } else this.#resolve(alert, "No task is late.", figures);
  }

  #fire(alert: Firing, summary: string, figures: object = {}): void {
    const key = keyOf(alert);
    if (this.#firing.has(key) || this.#firing.size >= MAX_FIRING) return;
    this.#firing.set(key, alert);
    this.#post("firing", alert, summary, figures);
  }

  #resolve(alert: Firing, summary: string, figures: object = {}): void {
    const fired = this.#firing.get(keyOf(alert));
    if (fired === undefined) return;
    this.#firing.delete(keyOf(alert));
    this.#post("resolved", fired, summary, figures);
  }

  #post(state: "firing" | "resolved", alert: Firing, summary: string, figures: object): void {
    this.#create(this.#taskOf(state, alert, summary, figures));
  }

  #taskOf(
    state: "firing" | "resolved" | "test",
    alert: Firing,
    summary: string,
    figures: object,
  ): NewTask {
    const { url, runbookUrl, windowMs } = this.#options;
    const { kind, since, tenantId = null, destination = null } = alert;
    const now = this.#source.now();
    const runbook = `${runbookUrl}#${kind}`;
    const body = {
      ...{ type: `alert.${state}`, alert: kind, summary, since, at: now },
      ...{ tenantId, destination, ...figures, runbook },
    };
    // Nodes of a fleet see the same thing at slightly different times.
    const window = state === "test" ? now : Math.floor(now / windowMs);
    const place = sha256([JSON.stringify([tenantId, destination, window])]).slice(0, PLACE_DIGITS);
    const subject = `${kind}-${state}-${place}`;
    const report = { kind: "alert", subject, tenantId: DEFAULT_TENANT, url, body, now } as const;
    return internalTask(report, this.#source.newTaskId(now, `alert-${subject}`));
  }

  #create(task: NewTask): void {
    this.#source.create(task).catch(() => {
      if (this.#unsent.length < MAX_UNSENT) this.#unsent.push(task);
    });
  }
}

function keyOf({ kind, tenantId = "", destination = "" }: Firing): string {
  return `${kind}\n${tenantId}\n${destination}`;
}
