/**
 * Destination runtime: a destination as this node sees it: its row in the store, the admission to
 * its guards, and its lanes. Core's `Admission` runs the guards. The pause, the gate and the circuit
 * are columns of the row, which all nodes share, and a claim names the version of the row that this
 * node knows.
 */
import {
  type AdmissionRequest,
  type Breaker,
  BudgetShare,
  classifyOutcome,
  createGuards,
  FleetAdmission,
  type FleetShare,
  type Gates,
  type Guards,
  guardOptionsOf,
  type HoldReason,
  NO_SHARE,
  type Outcome,
  type Permit,
  type Policy,
  type Random,
  type ReservedTokens,
  rampUp,
  recheckPermit,
  replaceGuards,
  retryGates,
  type SharedBudget,
  skipGateRamp,
} from "@redrive/core";
import type { DeliverySettings } from "../../model/delivery/delivery-settings.ts";
import { blankDestination, type DestinationRow } from "../../model/destination-row.ts";
import type { DestinationReport, DestinationShare } from "../../model/node-report.ts";
import {
  DEFAULT_DESTINATION,
  READ_DEFAULTS,
  type Reading,
  readDestination,
  type ServiceDestination,
} from "../../model/stored-documents.ts";
import { LANES } from "../../model/task.ts";
import type { DocumentName } from "../events/document-reports.ts";
import { adoptColumns, changedColumns } from "./breaker-columns.ts";
import { areLikeNew, keepOpen, keepUnchanged } from "./changed-guards.ts";
import { ALONE, FleetState, type FleetView } from "./fleet-state.ts";
import { decodeGuards, encodeGuards } from "./guard-codec.ts";
import { LimitHistory } from "./limit-history.ts";
import { type Lanes, ShardLanes, type WaitingLane } from "./waiting-lane.ts";

/** A lane of a destination of this node. */
export type DestinationLane = WaitingLane<DestinationRuntime>;

/** Tasks wait at every guard. A claim is made before its task is known, at the usual price. */
const FIRST: AdmissionRequest = { kind: "first", patient: true, throttled: false };
const RETRY: AdmissionRequest = { kind: "retry", patient: true, throttled: false };
const THROTTLED_RETRY: AdmissionRequest = { kind: "retry", patient: true, throttled: true };

export class DestinationRuntime {
  readonly tenantId: string;
  readonly name: string;
  readonly shardLanes = new ShardLanes<DestinationRuntime>(this);
  /** The lanes on the first shard, or in a store that is not sharded. */
  readonly lanes: Lanes<DestinationRuntime> = this.shardLanes.of(0);
  readonly #random: Random;
  readonly #createdAt: number;

  /** The row as last read or written. */
  row: DestinationRow;
  document: ServiceDestination = DEFAULT_DESTINATION;
  /** How the document was read. While it is unreadable, every task here is held. */
  reading: Reading<ServiceDestination> = READ_DEFAULTS;
  #admission: FleetAdmission | undefined;
  /** Guard state that an earlier process saved, until the row is known and the guards exist. */
  #savedText: string | undefined;
  /** For `GuardSaver`: whether the guard state is to be saved, and when it was saved last. */
  isSavePending = false;
  savedAt = 0;
  /** The instant and the number of its last turn in the scheduler. */
  turnAt = 0;
  turn = 0;
  /** The store may hold guard state of it. */
  hasSavedGuards = false;
  /** The number of tasks that are being created here and of claims. It is not dropped meanwhile. */
  users = 0;
  /** When a permit was last requested or an attempt ended. */
  usedAt: number;
  readonly limits = new LimitHistory();
  readonly fleetState: FleetState;
  readonly #fleet: FleetView<DestinationRuntime>;
  /** The tenant's share of the retry budget of the whole service. */
  readonly #serviceBudget: BudgetShare | undefined;
  /** Until when the probe of a half-open breaker keeps other nodes out. */
  #probeUntil = 0;
  /** The generation of the breaker that the announcement is for. */
  #probeOf = 0;

  /** `serviceBudget`: the retry budget of the whole service; undefined: none. */
  constructor(
    random: Random,
    key: { tenantId: string; name: string },
    now: number,
    serviceBudget: SharedBudget | undefined,
    fleet: FleetView<DestinationRuntime> = ALONE,
  ) {
    this.#fleet = fleet;
    this.fleetState = new FleetState(fleet);
    this.#serviceBudget = serviceBudget && new BudgetShare(serviceBudget, key.tenantId);
    this.tenantId = key.tenantId;
    this.name = key.name;
    this.#random = random;
    this.row = blankDestination(key.tenantId, key.name);
    this.#createdAt = now;
    this.usedAt = now;
  }

  /** The lanes of its tasks on one shard of the store. */
  lanesOf(shard: number): Lanes<DestinationRuntime> {
    return this.shardLanes.of(shard);
  }

  /** Created on first use, so ten thousand destinations that only wait cost little. */
  get admission(): FleetAdmission {
    this.#admission ??= this.#createAdmission();
    return this.#admission;
  }

  #createAdmission(): FleetAdmission {
    const guards = this.#createGuards(this.#createdAt);
    const { retryAfterGate } = this.document;
    const admission = new FleetAdmission(guards, retryAfterGate, this.#random, this.#serviceBudget);
    if (!this.#fleet.takesAll) admission.share = NO_SHARE;
    return admission;
  }

  get delivery(): DeliverySettings {
    return this.document.delivery;
  }

  get guards(): Guards {
    return this.admission.guards;
  }

  #createGuards(now: number): Guards {
    const options = guardOptionsOf(this.document);
    const guards =
      this.#savedText === undefined
        ? createGuards(options, now)
        : decodeGuards(options, this.#savedText, now);
    this.fleetState.shareBudget(guards, options, now);
    return guards;
  }

  /** Follows changes of the fleet: other nodes, another part of the retry budget. */
  followFleet(now: number): void {
    const admission = this.#admission;
    if (admission === undefined) return;
    this.fleetState.shareBudget(admission.guards, this.document, now);
    if (this.#fleet.takesAll) admission.share = undefined;
    else admission.share ??= NO_SHARE;
  }

  /** The tokens of a rate that were reserved for this node. */
  get reserved(): readonly ReservedTokens[] {
    return this.#admission?.share?.rate ?? [];
  }

  /** The store may give what the node does not want to others before this node gets the response. */
  limitShare({ slots, retrySlots }: DestinationReport): void {
    const { share } = this.admission;
    if (share === undefined) return;
    this.admission.share = {
      slots: Math.min(share.slots, slots?.wanted ?? share.slots),
      retrySlots: Math.min(share.retrySlots, retrySlots?.wanted ?? share.retrySlots),
      rate: share.rate,
    };
  }

  /** Applies the node's new share of the limits, and what other nodes have seen. */
  applyShare(
    share: DestinationShare,
    report: DestinationReport,
    fleetShare: FleetShare,
    now: number,
  ): void {
    const { admission } = this;
    this.fleetState.record(share, report, this.document.retryBudget, now);
    if (!this.#fleet.takesAll) admission.share = fleetShare;
    admission.lacksShare = false;
    admission.setOthers(share.others, admission.guards.breaker, now);
  }

  /** Continues with the guard state that an earlier process saved, unless the guards exist. */
  restoreGuards(text: string): void {
    this.hasSavedGuards = true;
    if (this.#admission === undefined) this.#savedText = text;
  }

  /** The guard state to save. Until the row is known, the state that was saved before stays. */
  savedGuards(): string {
    return this.#savedText ?? encodeGuards(this.guards);
  }

  /** The saved guard state is older than the guards of this node, which are in use. */
  get isSavedObsolete(): boolean {
    return this.hasSavedGuards && this.#savedText === undefined;
  }

  /**
   * Not used since `at`, nothing waits here, and a new one would behave the same: it has no document
   * and no pause, its circuit is closed, and its limit is not below the initial limit.
   */
  isIdleSince(at: number): boolean {
    const { row } = this;
    if (this.users > 0 || this.usedAt > at || this.isSavePending) return false;
    if (row.document !== null || row.pausedAt !== null) return false;
    const gateUntil = Math.max(row.gateUntil, this.#admission?.gateUntil ?? 0);
    if (row.breakerState !== "CLOSED" || gateUntil > at) return false;
    if (this.shardLanes.dueAt(LANES) < Number.POSITIVE_INFINITY) return false;
    return areLikeNew(this.#admission?.guards ?? {}, at);
  }

  /** For reports about the document. */
  get documentName(): DocumentName {
    return { kind: "destination", tenantId: this.tenantId, name: this.name };
  }

  /** A permit for one attempt. Undefined if a guard holds it; `heldBy` and `readyAt` are then set. */
  takePermit(isRetry: boolean, now: number): Permit | undefined {
    this.usedAt = now;
    const { breaker } = this.guards;
    if (this.fleetState.isBudgetOutdated) this.followFleet(now);
    const permit = this.admission.enter(this.#requestFor(isRetry), breaker, now);
    if (!this.#fleet.takesAll) this.#fleet.recordUse(this);
    if (permit === undefined) return undefined;
    if (breaker?.state === "HALF_OPEN") this.#announceProbe(breaker, now);
    if (permit.kind === "first") this.#uncountFirst(permit);
    return permit;
  }

  /** An announcement that no probe has used yet still keeps the other nodes out. */
  #announceProbe({ generation, options }: Breaker, now: number): void {
    if (this.#probeOf === generation && this.#probeUntil > now) return;
    this.#probeOf = generation;
    this.#probeUntil = now + options.openMs;
  }

  /**
   * A claim takes permits before its tasks are sent, and maybe for more tasks than there are. The
   * retry budgets must count only first attempts that were sent, so `maySend` counts them.
   */
  #uncountFirst(permit: Permit): void {
    this.admission.tokens.handBack(permit, false);
    permit.ticket = 0;
    permit.serviceTicket = 0;
    permit.budget = undefined;
  }

  /** Would `takePermit` return a permit now? If not, `heldBy` and `readyAt` say why. */
  wouldAdmit(isRetry: boolean, now: number): boolean {
    const request = this.#requestFor(isRetry);
    return this.admission.check(request, this.guards.breaker, now) === undefined;
  }

  /** If the document allows no retries, a retry is claimed like a first attempt, and then ended. */
  #requestFor(isRetry: boolean): AdmissionRequest {
    return isRetry && !this.refusesRetries ? RETRY : FIRST;
  }

  /** The document allows no retries (`maxRetries` 0). */
  get refusesRetries(): boolean {
    return this.document.concurrency?.maxRetries === 0;
  }

  /** The guard that held the last requested permit. */
  get heldBy(): HoldReason {
    return this.admission.heldBy;
  }

  /** When to request a permit again; Infinity: when something changes. */
  get readyAt(): number {
    return this.admission.heldUntil;
  }

  /**
   * Checks the permit again immediately before the request is sent. The commit of the claim took
   * time: a gate may have closed, the breaker may have changed, or the retry tokens may be gone. A
   * retry after a throttling response (`throttled`) may have another price, which is known only now.
   */
  maySend(permit: Permit, now: number, throttled: boolean): boolean {
    // The claim succeeded, so the row that this node knows is the stored one.
    this.#savedText = undefined;
    this.fleetState.isRowKnown = true;
    const request = permit.kind === "first" ? FIRST : retryRequest(throttled);
    const { admission } = this;
    if (!recheckPermit(admission, permit, this.guards.breaker, request, now)) return false;
    if (request === FIRST) admission.tokens.take(permit, false, now, false, true);
    return true;
  }

  /** When the retry budgets can pay for a retry. */
  retryReadyAt(now: number, throttled: boolean): number {
    return this.admission.tokens.readyAt(now, throttled, true);
  }

  /** Records the outcome of an attempt in the guards and releases its permit. */
  recordOutcome(
    permit: Permit,
    now: number,
    policy: Policy,
    outcome: Outcome,
    durationMs: number,
  ): void {
    this.usedAt = now;
    const { breaker } = this.guards;
    const verdict = classifyOutcome(policy, outcome);
    this.limits.follow(this.guards.concurrency, now);
    this.admission.leave(permit, breaker, policy, outcome, verdict, durationMs, now);
    this.limits.follow(this.guards.concurrency, now, outcome);
  }

  /** Nothing was sent: returns everything that the permit took. */
  returnPermit(permit: Permit, now: number): void {
    this.admission.handBack(permit, this.guards.breaker, now);
  }

  /** The current state of the guards, for `decide`. */
  gates(now: number, throttled: boolean): Gates {
    return retryGates(this.admission, retryRequest(throttled), this.guards.breaker, now);
  }

  /** The row to write if the shared state has changed; otherwise null. */
  changedRow(): DestinationRow | null {
    const { row } = this;
    const { gateUntil } = this.admission;
    const { breaker } = this.guards;
    const columns = breaker === undefined ? null : changedColumns(breaker, row, this.#probeUntil);
    const same = columns === null && gateUntil === row.gateUntil;
    return same ? null : { ...row, ...columns, gateUntil, version: row.version + 1 };
  }

  /** This node wrote the row. */
  recordWrite(row: DestinationRow): void {
    this.row = row;
    this.fleetState.isRowKnown = true;
  }

  /** Adopts a row that another node wrote. */
  adopt(row: DestinationRow, now: number): void {
    const previous = this.row;
    const { admission } = this;
    this.row = row;
    this.fleetState.isRowKnown = true;
    // Saved guard state applies only to the document that was in effect when it was saved.
    if (previous.version > 0) this.#savedText = undefined;
    if (row.document !== previous.document) this.#configure(row.document, now);
    this.#savedText = undefined;
    const { breaker } = admission.guards;
    if (breaker) adoptColumns(breaker, previous, row, now);
    const isResumed = previous.pausedAt !== null && row.pausedAt === null;
    const isClosed = previous.breakerState !== "CLOSED" && row.breakerState === "CLOSED";
    if (isResumed || isClosed) rampUp(admission);
    const isHeld = row.pausedAt !== null || this.reading.kind === "unreadable";
    admission.pausedUntil = isHeld ? Number.POSITIVE_INFINITY : 0;
    this.#adoptGate(row.gateUntil, now);
  }

  /** A gate that another node received applies here too. A document without gates lifts it. */
  #adoptGate(gateUntil: number, now: number): void {
    const { admission } = this;
    const isOff = this.document.retryAfterGate === undefined;
    admission.gateUntil = isOff ? 0 : Math.max(admission.gateUntil, gateUntil);
    if (gateUntil <= now) skipGateRamp(admission, gateUntil);
  }

  /** Applies another document. If guard state was saved, the guards continue from that. */
  #configure(text: string | null, now: number): void {
    const current = { guards: this.guards, options: guardOptionsOf(this.document) };
    this.reading = readDestination(text);
    // The guards of the last readable document stay.
    if (this.reading.kind === "unreadable") return;
    this.document = this.reading.value;
    const next = { guards: this.#createGuards(now), options: guardOptionsOf(this.document) };
    const guards = this.#savedText === undefined ? keepUnchanged(current, next) : next.guards;
    keepOpen(current.guards, guards, now);
    replaceGuards(this.admission, guards, this.document.retryAfterGate);
    this.dropShare();
  }

  /** Its share is not valid any more: the limits have changed, or other nodes may have it. */
  dropShare(): void {
    if (this.#admission?.share === undefined) return;
    this.#admission.share = NO_SHARE;
    this.fleetState.reportedAt = 0;
  }
}

function retryRequest(throttled: boolean): AdmissionRequest {
  return throttled ? THROTTLED_RETRY : RETRY;
}
