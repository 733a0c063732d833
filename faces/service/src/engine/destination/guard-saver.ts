/**
 * Guard notes: which destinations' guards are to be written down, so that a process that comes back
 * has neither a full retry budget again nor forgotten how much a destination takes. A note goes with
 * a commit that happens anyway, at most once a second for each destination and a few at a time (a
 * commit of their own is made only while many wait): a crash loses what was learnt since, a second
 * or two, more with many destinations, and time heals a note by the guards' own arithmetic.
 *
 * Only in a store of its own does a node find its own past. Where several share one, a note would be
 * another's: its first attempts would be counted by both, and together they would retry too much.
 */
import type { RetryBudget } from "@redrive/core";
import type { Store } from "../../model/store.ts";
import type { UnversionedDocument } from "../../model/document-table.ts";
import { EMPTY_BATCH } from "../../model/batch.ts";
import type { LoadAuthor } from "../commit/commit-batch.ts";
import type { DestinationRuntime } from "./destination-runtime.ts";
import { encodeBudget } from "./guard-codec.ts";

/** The kind of a destination's note; its id is the destination's name. */
export const GUARD_DOCUMENT = "guards";

/** The note of the retry budget of all destinations together. It is no tenant's. */
export const SERVICE_BUDGET_DOCUMENT = { kind: "retry-budget", tenantId: "", id: "whole" } as const;

const EVERY_MS = 1000;

/** At most 320 notes a second, however many destinations there are: a hundredth of a core. */
const SLICE = 8;
const SLICE_MS = 25;

export class GuardSaver {
  readonly #isOwn: boolean;
  readonly #whole: RetryBudget | undefined;
  /** Those whose `isNoteWanted` is set, in the order in which they changed. */
  #waiting: DestinationRuntime[] = [];
  /** Those that `take` gave last. */
  #given: readonly DestinationRuntime[] = [];
  #nextSliceAt = 0;
  #isWholeWanted = false;
  /** With what `take` gave last. */
  #isWholeGiven = false;
  #wholeNotedAt = 0;

  /** `isOwn`: nobody else uses the store; otherwise nothing is written down. */
  constructor(isOwn: boolean, whole: RetryBudget | undefined) {
    this.#isOwn = isOwn;
    this.#whole = whole;
  }

  /** Its guards may have changed. */
  changed(destination: DestinationRuntime): void {
    if (!this.#isOwn) return;
    this.#isWholeWanted = this.#whole !== undefined;
    if (destination.isSavePending) return;
    destination.isSavePending = true;
    this.#waiting.push(destination);
  }

  isWaiting(): boolean {
    return this.#waiting.length > 0 || this.#isWholeWanted;
  }

  /**
   * When a commit is to be made for the notes alone: at the next slice while more than one waits, so
   * that a quiet engine writes as fast as a busy one. The last slice has time for company.
   */
  nextAt(): number {
    if (this.#waiting.length <= SLICE) return Number.POSITIVE_INFINITY;
    const notedAt = Math.min(...this.#waiting.slice(0, SLICE).map((one) => one.savedAt));
    return Math.max(this.#nextSliceAt, notedAt + EVERY_MS);
  }

  /** What is to go with a commit that is made now. */
  take(now: number): readonly UnversionedDocument[] {
    this.#given = NOBODY;
    this.#isWholeGiven = false;
    if (now < this.#nextSliceAt || !this.isWaiting()) return NONE;
    this.#nextSliceAt = now + SLICE_MS;
    const seen = this.#waiting.splice(0, SLICE);
    const due = seen.filter(({ savedAt: notedAt }) => now - notedAt >= EVERY_MS);
    const early = seen.filter(({ savedAt: notedAt }) => now - notedAt < EVERY_MS);
    this.#waiting.push(...early);
    this.#given = due;
    this.#isWholeGiven = this.#isWholeWanted && now - this.#wholeNotedAt >= EVERY_MS;
    const whole = this.#isWholeGiven ? this.#wholeNote(now) : [];
    return [...due.map((one) => noteOf(one, now)), ...whole];
  }

  /** The commit that was made with what `take` gave last has failed. */
  lost(): void {
    for (const destination of this.#given) {
      destination.savedAt = 0;
      this.changed(destination);
    }
    this.#given = NOBODY;
    if (!this.#isWholeGiven) return;
    this.#isWholeGiven = false;
    this.#isWholeWanted = true;
    this.#wholeNotedAt = 0;
  }

  /** Writes down everything that no commit has taken along, before the process ends. */
  async writeAll(store: Store, { now, nodeId }: LoadAuthor): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = [];
    const notes = [...waiting.map((one) => noteOf(one, now)), ...this.#wholeNote(now)];
    while (notes.length > 0) {
      await store.commit({ now, nodeId, ...EMPTY_BATCH, documents: notes.splice(0, MAX_NOTES) });
    }
  }

  #wholeNote(now: number): UnversionedDocument[] {
    if (this.#whole === undefined || !this.#isWholeWanted) return [];
    this.#isWholeWanted = false;
    this.#wholeNotedAt = now;
    return [{ ...SERVICE_BUDGET_DOCUMENT, text: encodeBudget(this.#whole) }];
  }
}

/** Notes that share a commit when the engine stops. */
const MAX_NOTES = 256;

const NONE: readonly UnversionedDocument[] = [];
const NOBODY: readonly DestinationRuntime[] = [];

function noteOf(destination: DestinationRuntime, now: number): UnversionedDocument {
  destination.isSavePending = false;
  destination.savedAt = now;
  const { tenantId, name } = destination;
  return { kind: GUARD_DOCUMENT, tenantId, id: name, text: destination.savedGuards() };
}
