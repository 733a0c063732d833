/**
 * Waiting calls: the calls that the guards of one destination hold, in order of arrival. They wake one
 * at a time, when there is capacity. First attempts and retries wait in separate lanes, so a held retry
 * never blocks a first attempt. Patient and fail-fast calls have separate lanes too, because a guard
 * that holds one may refuse the other. So do calls with different breakers (one per key). The service
 * keeps its waiting tasks in the store instead.
 */

import type { AdmitDecision, HoldReason } from "../decide/decide.ts";
import type { StopReason } from "../documents/errors.ts";
import type { Admission, AdmissionRequest, Permit } from "./admission.ts";
import type { Breaker } from "./breaker.ts";
import { medianMs } from "./latency.ts";

/** A call in the queue. The caller keeps it, to remove the call when its time is over. */
export interface WaitingEntry<Call> {
  readonly call: Call;
  readonly request: AdmissionRequest;
  readonly lane: WaitingLane<Call>;
  readonly order: number;
  previous: WaitingEntry<Call> | undefined;
  next: WaitingEntry<Call> | undefined;
  isWaiting: boolean;
  /** True if it counts against `queue`. */
  readonly isQueued: boolean;
}

/** Calls that wait for the same guards. */
interface WaitingLane<Call> {
  readonly breaker: Breaker | undefined;
  readonly isRetry: boolean;
  readonly isPatient: boolean;
  first: WaitingEntry<Call> | undefined;
  last: WaitingEntry<Call> | undefined;
  /** The pass through the lanes in which its first call was held. */
  heldIn: number;
  /** The guard that held its first call at the last check, and until when. */
  heldBy: HoldReason;
  heldUntil: number;
  /** The breaker's generation when the first call was held. */
  generation: number;
}

/** How a caller handles a call that no longer waits. */
export interface WaitingCallHandler<Call> {
  /** Core's `admit` for a call that `by` has held, where a call usually takes `usualCallMs`. */
  decideEntry(
    call: Call,
    now: number,
    by: HoldReason,
    usualCallMs: number | undefined,
  ): AdmitDecision;
  admitted(call: Call, permit: Permit, now: number): void;
  refused(call: Call, reason: StopReason, now: number, by?: HoldReason): void;
}

export class WaitingCalls<Call> {
  /** Calls in the queue. */
  size = 0;
  /** When to call `wake` next; Infinity: when a guard changes. */
  wakeAt: number = Number.POSITIVE_INFINITY;
  readonly #admission: Admission;
  readonly #host: WaitingCallHandler<Call>;
  readonly #lanes: WaitingLane<Call>[] = [];
  /** Fail-fast calls that are held because no slot is free. */
  #queued = 0;
  #order = 0;
  #pass = 0;
  #isWaking = false;
  #isWakeAsked = false;

  constructor(admission: Admission, host: WaitingCallHandler<Call>) {
    this.#admission = admission;
    this.#host = host;
  }

  /**
   * Requests a permit; returns undefined with the admission's `refusal` set. A call may not pass
   * others that wait: its refusal is then a hold, and it must `join`.
   */
  enter(request: AdmissionRequest, breaker: Breaker | undefined, now: number): Permit | undefined {
    const admission = this.#admission;
    if (this.size === 0) return admission.enter(request, breaker, now);
    if (admission.check(request, breaker, now) !== undefined) return undefined;
    const lane = this.#laneOf(request, breaker) ?? this.#lanes[0];
    admission.refusal = "hold";
    admission.heldBy = lane?.heldBy ?? admission.heldBy;
    return undefined;
  }

  /** Adds a held call at the end; undefined if it may not wait for a slot. `wakeAt` may be now. */
  join(
    call: Call,
    request: AdmissionRequest,
    breaker: Breaker | undefined,
  ): WaitingEntry<Call> | undefined {
    const { heldBy, heldUntil, lacksSlot, guards } = this.#admission;
    const isQueued = lacksSlot && !request.patient;
    if (isQueued && this.#queued >= (guards.concurrency?.options.queue ?? 0)) return undefined;
    const lane = this.#laneOf(request, breaker) ?? this.#addLane(request, breaker);
    const previous = lane.last;
    const order = ++this.#order;
    const links = { previous, next: undefined };
    const entry = { call, request, lane, order, ...links, isWaiting: true, isQueued };
    if (isQueued) this.#queued++;
    if (previous === undefined) {
      lane.first = entry;
      lane.heldBy = heldBy;
      lane.heldUntil = heldUntil;
      this.wakeAt = Math.min(this.wakeAt, heldUntil);
    } else previous.next = entry;
    lane.last = entry;
    this.size++;
    return entry;
  }

  #laneOf(
    { kind, patient }: AdmissionRequest,
    breaker: Breaker | undefined,
  ): WaitingLane<Call> | undefined {
    const isRetry = kind !== "first";
    return this.#lanes.find(
      (lane) => lane.breaker === breaker && lane.isRetry === isRetry && lane.isPatient === patient,
    );
  }

  #addLane({ kind, patient }: AdmissionRequest, breaker: Breaker | undefined): WaitingLane<Call> {
    const lane: WaitingLane<Call> = {
      breaker,
      isRetry: kind !== "first",
      isPatient: patient,
      first: undefined,
      last: undefined,
      heldIn: 0,
      heldBy: this.#admission.heldBy,
      heldUntil: 0,
      generation: breaker?.generation ?? 0,
    };
    this.#lanes.push(lane);
    return lane;
  }

  /** Removes a call: its time is over, it was aborted, or it starts. */
  remove(entry: WaitingEntry<Call>): void {
    if (!entry.isWaiting) return;
    entry.isWaiting = false;
    this.size--;
    if (entry.isQueued) this.#queued--;
    const { lane, previous, next } = entry;
    if (previous === undefined) lane.first = next;
    else previous.next = next;
    if (next === undefined) lane.last = previous;
    else next.previous = previous;
    if (lane.first === undefined) this.#lanes.splice(this.#lanes.indexOf(lane), 1);
  }

  /**
   * Admits, in order, all calls that the guards admit now. Call it when a guard may have changed, and
   * at `wakeAt`. An admitted call may end, and call this again, before it returns.
   */
  wake(now: number): void {
    this.#isWakeAsked = true;
    if (this.#isWaking) return;
    this.#isWaking = true;
    try {
      while (this.#isWakeAsked) this.#passLanes(now);
    } finally {
      this.#isWaking = false;
      this.wakeAt = Number.POSITIVE_INFINITY;
      for (const lane of this.#lanes) this.wakeAt = Math.min(this.wakeAt, lane.heldUntil);
    }
  }

  /** Ends early if another wake is requested, because a held lane may be free now. */
  #passLanes(now: number): void {
    this.#isWakeAsked = false;
    this.#pass++;
    let entry = this.#nextEntry(now);
    while (entry !== undefined && !this.#isWakeAsked) {
      this.#wakeEntry(entry, now);
      entry = this.#nextEntry(now);
    }
  }

  /** The call that has waited longest in the lanes that are not known to be held. */
  #nextEntry(now: number): WaitingEntry<Call> | undefined {
    let oldest: WaitingEntry<Call> | undefined;
    for (const lane of this.#lanes) {
      const { first } = lane;
      if (first === undefined || (oldest !== undefined && oldest.order < first.order)) continue;
      if (lane.heldIn === this.#pass || isShut(lane, now)) continue;
      oldest = first;
    }
    return oldest;
  }

  #wakeEntry(entry: WaitingEntry<Call>, now: number): void {
    const admission = this.#admission;
    const host = this.#host;
    const { call, lane, request } = entry;
    const usualCallMs = medianMs(admission.guards.latency, now);
    const decision = host.decideEntry(call, now, lane.heldBy, usualCallMs);
    if (decision.kind === "stop") {
      this.remove(entry);
      host.refused(call, decision.reason, now, decision.by);
      return;
    }
    const permit = admission.enter(request, lane.breaker, now);
    const { refusal = "hold", heldBy, heldUntil } = admission;
    if (permit === undefined && refusal === "hold") {
      this.#recordHold(lane, heldBy, heldUntil);
      return;
    }
    this.remove(entry);
    if (permit !== undefined) host.admitted(call, permit, now);
    else if (refusal !== "hold") host.refused(call, refusal, now);
  }

  /** All lanes of the kind with closed breakers share the hold, so none of them is checked again. */
  #recordHold(lane: WaitingLane<Call>, heldBy: HoldReason, heldUntil: number): void {
    const { breaker, isRetry, isPatient } = lane;
    lane.heldBy = heldBy;
    lane.generation = breaker?.generation ?? 0;
    // Retries have several costs: one lane may be able to pay when another cannot.
    const isShared = isClosed(breaker) && heldBy !== "retry-budget";
    for (const other of isShared ? this.#lanes : [lane]) {
      const isSameKind = other.isRetry === isRetry && other.isPatient === isPatient;
      if (!isSameKind || (isShared && !isClosed(other.breaker))) continue;
      other.heldIn = this.#pass;
      other.heldUntil = heldUntil;
    }
  }
}

function isClosed(breaker: Breaker | undefined): boolean {
  return breaker === undefined || breaker.state === "CLOSED";
}

/**
 * True if the breaker was open at the lane's last check and has not changed since. An end that is later
 * than any opening lasts comes from a clock that was set back.
 */
function isShut<Call>(
  { breaker, heldBy, heldUntil, generation }: WaitingLane<Call>,
  now: number,
): boolean {
  if (breaker?.state !== "OPEN" || breaker.generation !== generation) return false;
  return (
    heldBy === "circuit-open" && heldUntil > now && heldUntil - now <= breaker.options.maxOpenMs
  );
}
