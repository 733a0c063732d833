/**
 * Event columns: a fixed number of events, stored in columns. As objects, each attempt would keep about a
 * dozen young objects alive for seconds, and moving them caused most of the garbage collector's
 * pauses under load. In columns they are numbers in place and a few strings.
 */
import type {
  AttemptSummary,
  EngineEvent,
  EngineEventBody,
  EngineEventType,
} from "./engine-event.ts";

/** Numbers that may be absent (event) or null (attempt). NaN stands for both. */
const NUMBERS = ["attemptNumber", "nextAttemptAt", "createdAt", "lagMs"] as const;
const ATTEMPT_NUMBERS = ["responseStatus", "durationMs", "nextDelayMs", "settleMs"] as const;
const TEXTS = ["tenantId", "taskId", "destination", "reason", "by", "heldBy", "policyId"] as const;
const ATTEMPT_TEXTS = ["outcome", "errorClass", "delaySource"] as const;

type Columns<Name extends string, Column> = { readonly [name in Name]: Column };

export class EventColumns {
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
    this.#putAttempt(slot, event.attempt);
  }

  #putAttempt(slot: number, attempt: AttemptSummary | undefined): void {
    this.#attemptTexts.outcome[slot] = attempt?.outcome;
    if (attempt === undefined) return;
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
