/**
 * Guarded destination: a destination as this node sees it: its row in the store, the admission to
 * its guards, and its lanes. Core's `Admission` steps the guards; here it is given the pause, the
 * gate and the circuit that the fleet shares.
 *
 * Pause, gate and circuit are columns of the row, and a claim is made under the version of the row
 * that this node knows.
 */
import {
  Admission,
  type AdmissionRequest,
  adoptBreaker,
  classifyOutcome,
  createConcurrency,
  createGuards,
  type Destination,
  type DestinationDocument,
  type Gates,
  type Guards,
  guardOptionsOf,
  type HoldReason,
  type Outcome,
  type Permit,
  type Policy,
  type Random,
  type RetryBudget,
  rampUp,
  recheckPermit,
  replaceGuards,
  resolveDestination,
  retryGates,
  skipGateRamp,
} from "@redrive/core";
import { blankDestination, type DestinationRow } from "../../model/destination-row.ts";
import type { Lane } from "../../model/task.ts";
import { keepOpen, keepUnchanged } from "./changed-guards.ts";
import { decodeGuards, encodeGuards } from "./guard-codec.ts";
import { createLanes, type WaitingLane } from "./waiting-lane.ts";

const DEFAULTS = resolveDestination({}, "service");

/** A task waits behind every guard. A claim is made before its task is known, at the usual price. */
const FIRST: AdmissionRequest = { kind: "first", patient: true, throttled: false };
const RETRY: AdmissionRequest = { kind: "retry", patient: true, throttled: false };
const THROTTLED_RETRY: AdmissionRequest = { kind: "retry", patient: true, throttled: true };

export class DestinationRuntime {
  readonly tenantId: string;
  readonly name: string;
  readonly lanes: Readonly<Record<Lane, WaitingLane>>;
  readonly #random: Random;
  readonly #madeAt: number;

  /** The row as last read or written. */
  row: DestinationRow;
  document: Destination = DEFAULTS;
  #admission: Admission | undefined;
  /** What an earlier process wrote down of its guards, until ours and the row are known. */
  #note: string | undefined;
  /** For `GuardNotes`: are the guards to be written down, and when were they last. */
  isSavePending = false;
  savedAt = 0;
  /** Those who keep it over a wait: tasks on their way into the store, and claims. */
  users = 0;
  #usedAt: number;
  readonly #whole: RetryBudget | undefined;
  /** Until when the probe of a half-open breaker keeps the others of the fleet out. */
  #probeUntil = 0;

  /** `whole`: the retry budget of the whole service; undefined: it has none. */
  constructor(
    random: Random,
    place: { tenantId: string; name: string },
    now: number,
    whole: RetryBudget | undefined,
  ) {
    this.#whole = whole;
    this.tenantId = place.tenantId;
    this.name = place.name;
    this.#random = random;
    this.row = blankDestination(place.tenantId, place.name);
    this.#madeAt = now;
    this.#usedAt = now;
    this.lanes = createLanes(this);
  }

  /** Created when first used: ten thousand destinations that only wait cost little. */
  get admission(): Admission {
    this.#admission ??= new Admission(
      this.#makeGuards(this.#madeAt),
      this.document.retryAfterGate,
      this.#random,
      this.#whole,
    );
    return this.#admission;
  }

  get guards(): Guards {
    return this.admission.guards;
  }

  #makeGuards(now: number): Guards {
    const options = guardOptionsOf(this.document);
    return this.#note === undefined
      ? createGuards(options, now)
      : decodeGuards(options, this.#note, now);
  }

  /** The guards go on from what an earlier process wrote down, unless they are in use already. */
  restoreGuards(text: string): void {
    if (this.#admission === undefined) this.#note = text;
  }

  /** To be written down. Until the row is known, what was written down before stays. */
  savedGuards(): string {
    return this.#note ?? encodeGuards(this.guards);
  }

  /**
   * Nobody has used it since, nothing waits here, and one made anew would do the same: it has no
   * document or pause of its own, its circuit is closed and its limit no lower than it began.
   */
  isIdleSince(at: number): boolean {
    const { row } = this;
    if (this.users > 0 || this.#usedAt > at || this.isSavePending) return false;
    if (row.document !== null || row.pausedAt !== null) return false;
    const gateUntil = Math.max(row.gateUntil, this.#admission?.gateUntil ?? 0);
    if (row.breakerState !== "CLOSED" || gateUntil > at) return false;
    if (Object.values(this.lanes).some(({ dueAt }) => Number.isFinite(dueAt))) return false;
    const { breaker, concurrency } = this.#admission?.guards ?? {};
    if (breaker !== undefined && breaker.state !== "CLOSED") return false;
    if (concurrency === undefined) return this.#note === undefined;
    const { limit } = createConcurrency(concurrency.options, at).estimate;
    return concurrency.ramp === 0 && concurrency.estimate.limit >= limit;
  }

  /** A permit for one attempt; undefined with `heldBy` and `readyAt` set. */
  takePermit(isRetry: boolean, now: number): Permit | undefined {
    this.#usedAt = now;
    const { breaker } = this.guards;
    const permit = this.admission.enter(this.#applicantOf(isRetry), breaker, now);
    if (permit === undefined) return undefined;
    if (breaker?.state === "HALF_OPEN") this.#probeUntil = now + breaker.options.openMs;
    if (permit.kind === "first") this.#uncountFirst(permit);
    return permit;
  }

  /**
   * A claim takes permits for more tasks than there may be, and before they are sent. Retries are
   * allowed for first attempts that were sent, so `mayLeave` counts them.
   */
  #uncountFirst(permit: Permit): void {
    this.admission.tokens.handBack(permit, false);
    permit.ticket = 0;
    permit.serviceTicket = 0;
    permit.budget = undefined;
  }

  /** Could a permit be had now? If not, `heldBy` and `readyAt` say why and until when. */
  wouldAdmit(isRetry: boolean, now: number): boolean {
    const applicant = this.#applicantOf(isRetry);
    return this.admission.check(applicant, this.guards.breaker, now) === undefined;
  }

  /** A retry that no slot is for is claimed as well, as if it were a first attempt: it then ends. */
  #applicantOf(isRetry: boolean): AdmissionRequest {
    return isRetry && !this.refusesRetries ? RETRY : FIRST;
  }

  /** Its document allows no retries at all (`maxRetries` 0). */
  get refusesRetries(): boolean {
    return this.document.concurrency?.maxRetries === 0;
  }

  /** What held the permit that was asked for last. */
  get heldBy(): HoldReason {
    return this.admission.heldBy;
  }

  /** When it is worth asking for again; Infinity: when something changes. */
  get readyAt(): number {
    return this.admission.heldUntil;
  }

  /**
   * The first byte is about to be sent. False if it must not: the commit of the claim took some
   * time, and meanwhile a gate was shut, the breaker has changed, or the retry tokens are gone. A
   * retry after a throttling response (`throttled`) may have another price, which is known only now.
   */
  maySend(permit: Permit, now: number, throttled: boolean): boolean {
    // It was claimed, so the row is the one that we know.
    this.#note = undefined;
    const applicant = permit.kind === "first" ? FIRST : retryOf(throttled);
    const { admission } = this;
    if (!recheckPermit(admission, permit, this.guards.breaker, applicant, now)) return false;
    if (applicant === FIRST) admission.tokens.take(permit, false, now, false, true);
    return true;
  }

  /** When a retry is worth asking for, as far as the retry budgets are concerned. */
  retryReadyAt(now: number, throttled: boolean): number {
    return this.admission.tokens.readyAt(now, throttled, true);
  }

  /** An attempt ended. */
  recordOutcome(
    permit: Permit,
    now: number,
    policy: Policy,
    outcome: Outcome,
    durationMs: number,
  ): void {
    this.#usedAt = now;
    const { breaker } = this.guards;
    const verdict = classifyOutcome(policy, outcome);
    this.admission.leave(permit, breaker, policy, outcome, verdict, durationMs, now);
  }

  /** Nothing was sent: everything that was taken is returned. */
  returnPermit(permit: Permit, now: number): void {
    this.admission.handBack(permit, this.guards.breaker, now);
  }

  /** What the guards say now, for `decide`. */
  gates(now: number, throttled: boolean): Gates {
    return retryGates(this.admission, retryOf(throttled), this.guards.breaker, now);
  }

  /** The row that is to be written, if what the fleet shares has changed; otherwise null. */
  changedRow(): DestinationRow | null {
    const { row } = this;
    const { gateUntil } = this.admission;
    const columns = this.#breakerColumns();
    const same = columns === null && gateUntil === row.gateUntil;
    return same ? null : { ...row, ...columns, gateUntil, version: row.version + 1 };
  }

  /** Null when the row says it already. While a probe is out, the others are to see it open. */
  #breakerColumns(): Pick<DestinationRow, "breakerState" | "openUntil" | "openCount"> | null {
    const { breaker } = this.guards;
    if (breaker === undefined) return null;
    const { row } = this;
    const { state, openCount } = breaker;
    if (state === "CLOSED") {
      return row.breakerState === "CLOSED"
        ? null
        : { breakerState: "CLOSED", openUntil: 0, openCount };
    }
    // A probe that was given back keeps nobody out.
    const isProbing = state === "HALF_OPEN" && breaker.probes > 0;
    const openUntil = isProbing ? this.#probeUntil : breaker.openUntil;
    const isTold = row.breakerState === "OPEN" && row.openUntil >= openUntil;
    return isTold ? null : { breakerState: "OPEN", openUntil, openCount };
  }

  /** The row was written, by us. */
  recordWrite(row: DestinationRow): void {
    this.row = row;
  }

  /** Takes over a row that somebody else wrote. */
  adopt(row: DestinationRow, now: number): void {
    const mine = this.row;
    const { admission } = this;
    this.row = row;
    // What was written down holds under the document that stood then, and for no later one.
    if (mine.version > 0) this.#note = undefined;
    if (row.document !== mine.document) this.#configure(row.document, now);
    this.#note = undefined;
    const { breaker } = admission.guards;
    const moved =
      row.breakerState !== mine.breakerState ||
      row.openUntil !== mine.openUntil ||
      row.openCount !== mine.openCount;
    if (breaker && moved) adoptColumns(breaker, row, now);
    const lifted = mine.pausedAt !== null && row.pausedAt === null;
    const closed = mine.breakerState !== "CLOSED" && row.breakerState === "CLOSED";
    if (lifted || closed) rampUp(admission);
    admission.pausedUntil = row.pausedAt === null ? 0 : Number.POSITIVE_INFINITY;
    this.#adoptGate(row.gateUntil, now);
  }

  /** The gate that another node was told of holds here too. A document without gates lifts it. */
  #adoptGate(gateUntil: number, now: number): void {
    const { admission } = this;
    const isOff = this.document.retryAfterGate === undefined;
    admission.gateUntil = isOff ? 0 : Math.max(admission.gateUntil, gateUntil);
    if (gateUntil <= now) skipGateRamp(admission, gateUntil);
  }

  /** Follows another document. With a note the guards go on from that. */
  #configure(text: string | null, now: number): void {
    const standing = { guards: this.guards, options: guardOptionsOf(this.document) };
    this.document = resolveDestination(JSON.parse(text ?? "{}") as DestinationDocument, "service");
    const fresh = { guards: this.#makeGuards(now), options: guardOptionsOf(this.document) };
    const guards = this.#note === undefined ? keepUnchanged(standing, fresh) : fresh.guards;
    keepOpen(standing.guards, guards, now);
    replaceGuards(this.admission, guards, this.document.retryAfterGate);
  }
}

function retryOf(throttled: boolean): AdmissionRequest {
  return throttled ? THROTTLED_RETRY : RETRY;
}

function adoptColumns(
  breaker: NonNullable<Guards["breaker"]>,
  row: DestinationRow,
  now: number,
): void {
  const { breakerState: state, openUntil, openCount } = row;
  adoptBreaker(breaker, now, { state, openUntil, openCount });
}
