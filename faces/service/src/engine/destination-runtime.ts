/**
 * Destination runtime: a destination as this node sees it: its row in the store, the admission to
 * its guards, and its lanes. Core's `Admission` runs the guards. The pause, the gate and the circuit
 * are columns of the row, which all nodes share, and a claim names the version of the row that this
 * node knows.
 */
import {
  type AdmissionRequest,
  adoptBreaker,
  type Breaker,
  type BudgetPlace,
  BudgetShare,
  type ConcurrencyOptions,
  concurrencyLimit,
  concurrencyOutcomeOf,
  createConcurrency,
  createGuards,
  createRetryBudget,
  type Destination,
  FleetAdmission,
  type FleetShare,
  type Gates,
  type GuardOptions,
  type Guards,
  guardOptionsOf,
  type HoldReason,
  medianMs,
  NO_SHARE,
  type Outcome,
  type Permit,
  PermitBatch,
  type Policy,
  type Random,
  type ReservedTokens,
  type RetryBudget,
  type RetryBudgetOptions,
  rampUp,
  recheckPermit,
  replaceGuards,
  restoreGuards,
  restoreRetryBudget,
  retryGates,
  type SavedGuards,
  type SharedBudget,
  saveGuards,
  saveRetryBudget,
  shareBudget,
  skipGateRamp,
  type Verdict,
} from "@redrive/core";
import type { DeliverySettings } from "../model/delivery/delivery-settings.ts";
import { blankDestination, type DestinationRow } from "../model/destination-row.ts";
import {
  type DestinationReport,
  type DestinationShare,
  NO_OTHERS,
  type OtherNodes,
  type RateReservation,
  reserveRate,
} from "../model/node-report.ts";
import {
  DEFAULT_DESTINATION,
  READ_DEFAULTS,
  type Reading,
  readDestination,
  type ServiceDestination,
} from "../model/stored-documents.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { DocumentName } from "./events.ts";
import { createLanes, earliestDueAt, type Lanes, type WaitingLane } from "./lanes.ts";

/** A lane of a destination of this node. */
export type DestinationLane = WaitingLane<DestinationRuntime>;

/** Tasks wait at every guard. A claim is made before its task is known, at the usual price. */
const FIRST: AdmissionRequest = { kind: "first", patient: true, throttled: false };
const RETRY: AdmissionRequest = { kind: "retry", patient: true, throttled: false };
const THROTTLED_RETRY: AdmissionRequest = { kind: "retry", patient: true, throttled: true };

export class DestinationRuntime {
  readonly tenantId: string;
  readonly name: string;
  readonly lanes: Lanes<DestinationRuntime> = createLanes<DestinationRuntime>(this);
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

  /** Created on first use, so ten thousand destinations that only wait cost little. */
  get admission(): FleetAdmission {
    this.#admission ??= this.#createAdmission();
    return this.#admission;
  }

  #createAdmission(): FleetAdmission {
    const guards = this.#createGuards(this.#createdAt);
    const { retryAfterGate } = this.document;
    const admission = new FleetAdmission(guards, retryAfterGate, this.#random, this.#serviceBudget);
    if (!this.#fleet.takesAll) admission.share = this.#firstShare();
    return admission;
  }

  /**
   * The nodes share its limits through the store, because someone has set them. Of the default limits,
   * each node uses an equal part by itself: most destinations have no others, and a fleet has thousands.
   */
  get isShared(): boolean {
    return this.row.document !== null;
  }

  /** Another node may end the last hold: by its change of the row, or by a retry that it does not need. */
  get awaitsOthers(): boolean {
    return ["pause", "circuit-open", "retry-budget"].includes(this.heldBy);
  }

  /** What the node may use without having asked. */
  #firstShare(): FleetShare {
    return this.isShared ? NO_SHARE : this.fleetState.partOfDefaults(this.document);
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
    else if (!this.isShared || admission.share === undefined) admission.share = this.#firstShare();
  }

  /** The tokens of a rate that were reserved for this node. */
  get reserved(): readonly ReservedTokens[] {
    return this.#admission?.share?.rate ?? [];
  }

  /** The store may give what the node does not want to others before this node gets the response. */
  limitShare({ slots, retrySlots }: DestinationReport): void {
    const { share } = this.admission;
    if (share === undefined || !this.isShared) return;
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
    if (this.isShared && !this.#fleet.takesAll) admission.share = fleetShare;
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
   * and no pause, its circuit is closed, and its limit is at least half of the initial limit.
   */
  isIdleSince(at: number): boolean {
    const { row } = this;
    if (this.users > 0 || this.usedAt > at || this.isSavePending) return false;
    if (row.document !== null || row.pausedAt !== null) return false;
    const gateUntil = Math.max(row.gateUntil, this.#admission?.gateUntil ?? 0);
    if (row.breakerState !== "CLOSED" || gateUntil > at) return false;
    if (earliestDueAt(this.lanes) < Number.POSITIVE_INFINITY) return false;
    return areLikeNew(this.#admission?.guards ?? {}, at);
  }

  /** For reports about the document. */
  get documentName(): DocumentName {
    return { kind: "destination", tenantId: this.tenantId, name: this.name };
  }

  /**
   * A permit for one attempt. Undefined if a guard holds it; `heldBy` and `readyAt` are then set. It
   * gets its token of a rate from `maySend`.
   */
  takePermit(isRetry: boolean, now: number): Permit | undefined {
    const { breaker } = this.#beforeEntering(now);
    const permit = this.admission.enter(this.#requestFor(isRetry), breaker, now, 0);
    this.#recordEntering(breaker, permit !== undefined, now);
    return permit;
  }

  /** No permit yet, for the attempts of one claim. */
  batchFor(isRetry: boolean): PermitBatch {
    return new PermitBatch(this.#requestFor(isRetry).kind);
  }

  /**
   * Adds permits to the batch until it has `most`, or a guard holds the next one; `heldBy` and `readyAt`
   * are then set. They get their tokens of a rate from `maySend`, within about `aheadMs`.
   */
  takePermits(
    batch: PermitBatch,
    isRetry: boolean,
    now: number,
    aheadMs: number,
    most: number,
  ): void {
    const { breaker } = this.#beforeEntering(now);
    this.admission.enterMany(batch, this.#requestFor(isRetry), breaker, now, aheadMs, most);
    this.#recordEntering(breaker, batch.size >= most, now);
  }

  #beforeEntering(now: number): Guards {
    this.usedAt = now;
    if (this.fleetState.isBudgetOutdated) this.followFleet(now);
    return this.admission.guards;
  }

  /** `isAdmitted`: no guard holds the next attempt. */
  #recordEntering(breaker: Breaker | undefined, isAdmitted: boolean, now: number): void {
    if (!this.#fleet.takesAll && (this.isShared || (!isAdmitted && this.awaitsOthers))) {
      this.#fleet.recordUse(this);
    }
    if (breaker?.state === "HALF_OPEN") this.#announceProbe(breaker, now);
  }

  /** An announcement that no probe has used yet still keeps the other nodes out. */
  #announceProbe({ generation, options }: Breaker, now: number): void {
    if (this.#probeOf === generation && this.#probeUntil > now) return;
    this.#probeOf = generation;
    this.#probeUntil = now + options.openMs;
  }

  /** Would `takePermit` return a permit now? If not, `heldBy` and `readyAt` say why. */
  wouldAdmit(isRetry: boolean, now: number, aheadMs = 0): boolean {
    const request = this.#requestFor(isRetry);
    return this.admission.check(request, this.guards.breaker, now, aheadMs) === undefined;
  }

  /** When the next permit that waits for a token of the rate may be sent; `now`: at once. */
  startsAt(now: number): number {
    return this.admission.startsAt(now);
  }

  /** If the document allows no retries, a retry is claimed like a first attempt, and then ended. */
  #requestFor(isRetry: boolean): AdmissionRequest {
    return isRetry && !this.refusesRetries ? RETRY : FIRST;
  }

  /** The document allows no retries (`maxRetries` 0). */
  get refusesRetries(): boolean {
    return this.document.concurrency?.maxRetries === 0;
  }

  /** The median duration of a call; undefined while it is unknown. */
  usualCallMs(now: number): number | undefined {
    return medianMs(this.admission.guards.latency, now);
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
   * The token of a rate is taken now, so that the requests keep the rate and not only the claims.
   */
  maySend(permit: Permit, now: number, throttled: boolean): boolean {
    // The claim succeeded, so the row that this node knows is the stored one.
    this.#savedText = undefined;
    this.fleetState.isRowKnown = true;
    const request = permit.kind === "first" ? FIRST : retryRequest(throttled);
    const { admission } = this;
    if (!recheckPermit(admission, permit, admission.guards.breaker, request, now)) return false;
    return admission.start(permit, now);
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
    verdict: Verdict,
    durationMs: number,
  ): void {
    this.usedAt = now;
    const { admission } = this;
    const { breaker, concurrency } = admission.guards;
    this.limits.follow(concurrency, now);
    admission.leave(permit, breaker, policy, outcome, verdict, durationMs, now);
    const isOverload = concurrencyOutcomeOf(outcome, verdict) === "dropped";
    this.limits.follow(concurrency, now, isOverload ? outcome : undefined);
  }

  /** The permits that the claim did not need. */
  returnPermits(batch: PermitBatch, now: number): void {
    const { admission } = this;
    admission.handBackAll(batch, admission.guards.breaker, now);
  }

  /** Nothing was sent: returns everything that the permit took. */
  returnPermit(permit: Permit, now: number): void {
    const { admission } = this;
    admission.handBack(permit, admission.guards.breaker, now);
  }

  /** The current state of the guards, for `decide`. */
  gates(now: number, throttled: boolean): Gates {
    const { admission } = this;
    return retryGates(admission, retryRequest(throttled), admission.guards.breaker, now);
  }

  /** The row to write if the shared state has changed; otherwise null. */
  changedRow(): DestinationRow | null {
    const { row } = this;
    const { gateUntil, guards } = this.admission;
    const { breaker } = guards;
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
    if (isResumed || isClosed) rampUp(admission, now);
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
    this.#admission.share = this.#firstShare();
    this.fleetState.reportedAt = 0;
    if (!this.isShared) return;
    // The node may just have learned that there is a document: it must ask before its tasks can start.
    this.#admission.lacksShare = true;
    this.#fleet.recordUse(this);
  }
}

function retryRequest(throttled: boolean): AdmissionRequest {
  return throttled ? THROTTLED_RETRY : RETRY;
}

// Changed guards: the guards of a destination after its document has changed. A guard with unchanged
// options keeps its state; a guard with changed options starts fresh. An open circuit stays open in
// both cases, because the destination is still failing.

/** Guards, and the options that created them. */
interface ConfiguredGuards {
  readonly guards: Guards;
  readonly options: GuardOptions;
}

/** The guards of `next`, except that a guard with the same options is taken from `current`. */
export function keepUnchanged(current: ConfiguredGuards, next: ConfiguredGuards): Guards {
  const kept = <Name extends keyof GuardOptions>(name: Name): Guards[Name] =>
    isSame(current.options[name], next.options[name]) ? current.guards[name] : next.guards[name];
  return {
    retryBudget: kept("retryBudget"),
    breaker: kept("breaker"),
    concurrency: kept("concurrency"),
    rate: kept("rate"),
    adaptiveRate: kept("adaptiveRate"),
    throttle: kept("throttle"),
    // The latency histogram has no options.
    latency: current.guards.latency,
  };
}

/** Copies an open circuit to a new breaker. */
function keepOpen(from: Guards, to: Guards, now: number): void {
  if (from.breaker && to.breaker && from.breaker !== to.breaker) {
    adoptBreaker(to.breaker, now, from.breaker);
  }
}

/**
 * New guards would behave much the same: the circuit is closed, and the limit is at least half of the
 * initial one. A limit that a few refusals have lowered grows only while half of it is used, so most would
 * be kept forever.
 */
function areLikeNew({ breaker, concurrency }: Partial<Guards>, at: number): boolean {
  if (breaker !== undefined && breaker.state !== "CLOSED") return false;
  if (concurrency === undefined) return true;
  const { limit } = createConcurrency(concurrency.options, at).estimate;
  return concurrency.ramp === 0 && concurrency.estimate.limit * 2 >= limit;
}

/** Options are flat. The order of the fields in a document has no meaning. */
function isSame(one: object | undefined, other: object | undefined): boolean {
  return canonical(one) === canonical(other);
}

function canonical(options: object | undefined): string {
  const entries = Object.entries(options ?? {}).map(([name, value]) =>
    JSON.stringify([name, value]),
  );
  return options === undefined ? "" : entries.sort().join();
}

// GuardBreaker columns: the circuit of a destination in its row, which all nodes share.

type GuardBreaker = NonNullable<Guards["breaker"]>;
type BreakerColumns = Pick<DestinationRow, "breakerState" | "openUntil" | "openCount">;

/**
 * The columns to write; null when the row already has them. While a probe is running, other nodes
 * see an open circuit until `probeUntil`.
 */
export function changedColumns(
  breaker: GuardBreaker,
  row: DestinationRow,
  probeUntil: number,
): BreakerColumns | null {
  const { state, openCount } = breaker;
  if (state === "CLOSED") {
    return row.breakerState === "CLOSED"
      ? null
      : { breakerState: "CLOSED", openUntil: 0, openCount };
  }
  // A probe whose permit was returned blocks no other node.
  const isProbing = state === "HALF_OPEN" && breaker.probes > 0;
  const openUntil = isProbing ? probeUntil : breaker.openUntil;
  const isWritten = row.breakerState === "OPEN" && row.openUntil >= openUntil;
  return isWritten ? null : { breakerState: "OPEN", openUntil, openCount };
}

/** Brings the breaker to the state of `next`, if another node has changed those columns. */
export function adoptColumns(
  breaker: GuardBreaker,
  current: DestinationRow,
  next: DestinationRow,
  now: number,
): void {
  const { breakerState: state, openUntil, openCount } = next;
  const isChanged =
    state !== current.breakerState ||
    openUntil !== current.openUntil ||
    openCount !== current.openCount;
  if (isChanged) adoptBreaker(breaker, now, { state, openUntil, openCount });
}

// Destinations: the destinations that this node knows. They are created on first use, and dropped
// when they are idle and a new one would behave the same, because callers may name any number.

/** Longer than every window of the default guards, so that their state has aged out. */
export const IDLE_MS = 600_000;

/** How many destinations one check examines: less than a millisecond. */
const MAX_CHECKED = 1000;

/** Reads the saved guard state of a destination; null if there is none. */
export type ReadGuards = (tenantId: string, name: string) => Promise<string | null>;

interface DestinationsOptions {
  /** The retry budget of the whole service. Default: none. */
  readonly serviceBudget?: SharedBudget | undefined;
  /** Default: no guard state is restored. */
  readonly readGuards?: ReadGuards | undefined;
  /** The other nodes that share a destination. Default: there are none. */
  readonly fleet?: FleetView<DestinationRuntime> | undefined;
}

export class Destinations {
  readonly #time: EngineTime;
  readonly #random: Random;
  readonly #options: DestinationsOptions;
  readonly #byKey = new Map<string, DestinationRuntime>();
  /** Where the next check for idle destinations continues. */
  #unchecked: Iterator<DestinationRuntime> = [][Symbol.iterator]();

  readonly #late = new LateTasks();

  constructor(time: EngineTime, random: Random, options: DestinationsOptions = {}) {
    this.#time = time;
    this.#random = random;
    this.#options = options;
  }

  /**
   * When the oldest task was due that waits although no pause, gate or open breaker holds it; Infinity:
   * none waits. It is found in rounds, so it may be a few seconds old.
   */
  get oldestDueAt(): number {
    return this.#late.oldestDueAt;
  }

  get size(): number {
    return this.#byKey.size;
  }

  values(): Iterable<DestinationRuntime> {
    return this.#byKey.values();
  }

  /** The destination, if this node knows it. */
  find(tenantId: string, name: string): DestinationRuntime | undefined {
    return this.#byKey.get(keyOf(tenantId, name));
  }

  /**
   * A caller that keeps it across a wait increments `users` meanwhile. `guards` is the saved guard
   * state, null if there is none. By default it is read, which ends before the next commit begins;
   * a caller that uses the guards earlier calls `load`.
   */
  getOrCreate(tenantId: string, name: string, guards?: string | null): DestinationRuntime {
    const known = this.find(tenantId, name);
    if (known !== undefined) return known;
    const created = this.#create(tenantId, name);
    this.#byKey.set(keyOf(tenantId, name), created);
    if (guards === undefined) this.#restore(created);
    else if (guards !== null) created.restoreGuards(guards);
    return created;
  }

  /** Like `getOrCreate`, but its guards are restored: for callers that use them at once. */
  async load(tenantId: string, name: string): Promise<DestinationRuntime> {
    const { readGuards } = this.#options;
    if (this.find(tenantId, name) !== undefined || readGuards === undefined) {
      return this.getOrCreate(tenantId, name);
    }
    const guards = await readGuards(tenantId, name).catch(() => null);
    return this.getOrCreate(tenantId, name, guards);
  }

  /** A destination that this node does not know, as a new task would find it. It is not kept. */
  preview(row: DestinationRow, guards: string | null): DestinationRuntime {
    const created = this.#create(row.tenantId, row.name);
    if (guards !== null) created.restoreGuards(guards);
    if (row.version > 0) created.adopt(row, this.#time.now());
    return created;
  }

  #create(tenantId: string, name: string): DestinationRuntime {
    const random = this.#random.fork(`destination/${keyOf(tenantId, name)}`);
    const { serviceBudget, fleet } = this.#options;
    const key = { tenantId, name };
    return new DestinationRuntime(random, key, this.#time.now(), serviceBudget, fleet);
  }

  /** If the state cannot be read, the guards start fresh. */
  #restore(destination: DestinationRuntime): void {
    const { tenantId, name } = destination;
    this.#options.readGuards?.(tenantId, name).then(
      (text) => {
        if (text !== null) destination.restoreGuards(text);
      },
      () => {},
    );
  }

  /**
   * Examines some of the destinations, and continues there the next time. Returns those that it
   * dropped.
   */
  dropIdle(): readonly DestinationRuntime[] {
    const now = this.#time.now();
    const dropped: DestinationRuntime[] = [];
    for (let checked = 0; checked < MAX_CHECKED; checked++) {
      const { value: destination, done } = this.#unchecked.next();
      if (done) {
        this.#unchecked = this.#byKey.values();
        this.#late.endRound();
        return dropped;
      }
      this.#late.record(destination, now);
      if (!destination.isIdleSince(now - IDLE_MS)) continue;
      this.#byKey.delete(keyOf(destination.tenantId, destination.name));
      dropped.push(destination);
    }
    return dropped;
  }
}

function keyOf(tenantId: string, name: string): string {
  return `${tenantId}\n${name}`;
}

// Limit history: the latest changes of a destination's concurrency limit on this node, with the reason
// for each. A limit can move with every call, so steps for the same reason that follow each other are
// one change.

type Concurrency = NonNullable<Guards["concurrency"]>;

/**
 * `successes`: calls succeeded while at least half of the limit was used. `overload`: the target
 * refused calls for overload, or calls timed out. `latency`: calls became faster or slower, or the
 * target refused many of them.
 * `ramp-started`: a pause, a Retry-After or an open circuit is over, so the limit restarts at 1.
 * `ramp`: one more per success, or after a time without the end of a call, until the old limit.
 * `document`: another document.
 */
type LimitCause = "successes" | "overload" | "latency" | "ramp-started" | "ramp" | "document";

export interface LimitChange {
  /** When the first and the last of its steps happened; epoch ms. */
  readonly sinceAt: number;
  readonly at: number;
  readonly from: number;
  readonly to: number;
  readonly cause: LimitCause;
  /** The last refusal or error before the last step, such as 503 or timeout; null: none caused it. */
  readonly detail: string | null;
  readonly steps: number;
}

/** Changes that are kept: about 10 kB. */
export const MAX_CHANGES = 60;
/** Steps this close to each other are one change. */
const JOIN_MS = 10_000;

interface Known {
  readonly limit: number;
  readonly ramp: number;
  readonly options: ConcurrencyOptions;
}

class LimitHistory {
  #known: Known | undefined;
  /** The last sign of overload. A cut follows a round of calls, which may end with a success. */
  #overload: Outcome | undefined;
  readonly #changes: LimitChange[] = [];

  /** The oldest first. */
  get changes(): readonly LimitChange[] {
    return this.#changes;
  }

  /**
   * Call it before and after the end of each attempt, and then with its outcome if that is a sign of
   * overload. The first call only learns the limit.
   */
  follow(concurrency: Concurrency | undefined, now: number, overload?: Outcome): void {
    this.#overload = overload ?? this.#overload;
    if (concurrency === undefined) {
      this.#known = undefined;
      return;
    }
    const limit = concurrencyLimit(concurrency);
    const { ramp, options } = concurrency;
    const before = this.#known;
    if (before?.limit === limit && before.ramp === ramp && before.options === options) return;
    this.#known = { limit, ramp, options };
    if (before === undefined || before.limit === limit) return;
    this.#add(before.limit, limit, now, causeOf(before, this.#known));
  }

  #add(from: number, to: number, at: number, cause: LimitCause): void {
    const detail = cause === "overload" ? detailOf(this.#overload) : null;
    const last = this.#changes.at(-1);
    if (last !== undefined && isContinued(last, { from, to, at, cause })) {
      const steps = last.steps + 1;
      const { sinceAt, from: first } = last;
      this.#changes[this.#changes.length - 1] = {
        sinceAt,
        at,
        from: first,
        to,
        cause,
        detail,
        steps,
      };
      return;
    }
    this.#changes.push({ sinceAt: at, at, from, to, cause, detail, steps: 1 });
    if (this.#changes.length > MAX_CHANGES) this.#changes.shift();
  }
}

/** The same reason, in the same direction, soon after. */
function isContinued(
  last: LimitChange,
  next: Pick<LimitChange, "from" | "to" | "at" | "cause">,
): boolean {
  const isSameWay = last.to > last.from === next.to > next.from;
  return last.cause === next.cause && isSameWay && next.at - last.at <= JOIN_MS;
}

function causeOf(before: Known, after: Known): LimitCause {
  if (before.options !== after.options) return "document";
  const isRestarted = after.ramp === 1 && before.ramp > 2;
  if (isRestarted || (before.ramp === 0 && after.ramp > 0)) return "ramp-started";
  if (before.ramp > 0) return "ramp";
  const { algorithm } = after.options;
  if (algorithm === "GRADIENT" || algorithm === "VEGAS") return "latency";
  return after.limit > before.limit ? "successes" : "overload";
}

function detailOf(outcome: Outcome | undefined): string | null {
  if (outcome === undefined) return null;
  if (outcome.kind === "status") return String(outcome.status);
  if (outcome.kind === "grpc") return outcome.code;
  return outcome.kind === "error" ? outcome.errorClass : null;
}

// Guard codec: writes the state of a destination's guards as text, and reads it back. The text does
// not contain the circuit, which all nodes share in the destination's row.

/** Most counts of the histogram are zero, so only pairs of bucket number and count are stored. */
interface PackedCounts {
  readonly size: number;
  readonly filled: readonly number[];
}

/** A text with a larger size was not written by this file. */
const MAX_SIZE = 4096;

export function encodeGuards(guards: Guards): string {
  const { latency, ...saved } = saveGuards(guards);
  const packed = latency && {
    ...latency,
    counts: pack(latency.counts),
    unfinished: pack(latency.unfinished),
  };
  return JSON.stringify({ ...saved, latency: packed, breaker: null });
}

/** The saved guards. New guards if the text is unreadable, so that it cannot prevent a start. */
export function decodeGuards(options: GuardOptions, text: string, now: number): Guards {
  try {
    const { latency, ...saved } = JSON.parse(text);
    const unpacked = latency && {
      ...latency,
      counts: unpack(latency.counts),
      // Texts of older versions do not have it.
      unfinished: latency.unfinished ? unpack(latency.unfinished) : [],
    };
    return restoreGuards(options, { ...saved, latency: unpacked } satisfies SavedGuards, now);
  } catch {
    return createGuards(options, now);
  }
}

export function encodeBudget(budget: RetryBudget): string {
  return JSON.stringify(saveRetryBudget(budget));
}

/** The saved budget. A full budget if there is no text or the text is unreadable. */
export function decodeBudget(
  options: RetryBudgetOptions,
  text: string | undefined,
  now: number,
): RetryBudget {
  if (text === undefined) return createRetryBudget(options, now);
  try {
    return restoreRetryBudget(options, JSON.parse(text), now);
  } catch {
    return createRetryBudget(options, now);
  }
}

function pack(counts: readonly number[]): PackedCounts {
  // A histogram has hundreds of buckets, most of them empty.
  const filled: number[] = [];
  for (let index = 0; index < counts.length; index++) {
    const count = counts[index] ?? 0;
    if (count > 0) filled.push(index, count);
  }
  return { size: counts.length, filled };
}

/** The histogram itself checks that the size is right. */
function unpack({ size, filled }: PackedCounts): readonly number[] {
  const counts = new Array<number>(Math.min(size, MAX_SIZE)).fill(0);
  for (let at = 0; at + 1 < filled.length; at += 2) counts[filled[at] ?? 0] = filled[at + 1] ?? 0;
  return counts;
}

// Late tasks: finds the task that has been due for longest although its destination lets tasks through. A
// round examines all destinations, a few at a time.

export class LateTasks {
  /** Of the round in progress, and of the last complete one. */
  #current = Number.POSITIVE_INFINITY;
  #last = Number.POSITIVE_INFINITY;

  get oldestDueAt(): number {
    return Math.min(this.#last, this.#current);
  }

  record({ row, lanes }: DestinationRuntime, now: number): void {
    if (row.pausedAt !== null || row.breakerState !== "CLOSED" || row.gateUntil > now) return;
    const dueAt = earliestDueAt(lanes);
    if (dueAt <= now) this.#current = Math.min(this.#current, dueAt);
  }

  endRound(): void {
    this.#last = this.#current;
    this.#current = Number.POSITIVE_INFINITY;
  }
}

// Fleet state: what a destination of this node knows of the other nodes, from the last exchange.

/** How many nodes are on the same store. */
interface FleetSize {
  /** The live nodes, at least 1. */
  readonly nodeCount: number;
  readonly place: FleetPlace;
  /** Its place among the nodes that share a retry budget; undefined: it has never shared one. */
  budgetPlace(windowMs: number, now: number): NodePlace | undefined;
  /** From when its place stays the same, unless the nodes change again; -Infinity: it has none. */
  readonly placeSettledAt: number;
}

/** The nodes on the same store, as a destination sees them. */
export interface FleetView<Destination> extends FleetSize {
  /** This node uses the whole limits, because it is alone. */
  readonly takesAll: boolean;
  /** A permit was requested. `admission.lacksShare` says whether a share was missing. */
  recordUse(destination: Destination): void;
}

/** A node among those that share a destination. */
export interface FleetPlace {
  readonly nodes: number;
  /** From 0. */
  readonly rank: number;
}

/** The view of a node that has no fleet. */
export const ALONE: FleetView<unknown> = {
  takesAll: true,
  nodeCount: 1,
  place: { nodes: 1, rank: 0 },
  budgetPlace: () => undefined,
  placeSettledAt: Number.NEGATIVE_INFINITY,
  recordUse: () => {},
};

interface SlotsHeld {
  readonly count: number;
  /** When it got the first of them. */
  readonly since: number;
}

const NO_SLOTS: SlotsHeld = { count: 0, since: Number.POSITIVE_INFINITY };

export class FleetState {
  /** What the other nodes reported last, and when this node reported. */
  others: OtherNodes = NO_OTHERS;
  reportedAt = 0;
  /**
   * The node knows the stored row. Before, it asks for no slots: it would ask for those of the default
   * limit, and the store would take the shares of the other nodes for too large.
   */
  isRowKnown = false;
  /** The node got as many slots as it wanted, so it may get more if it wants more. */
  hasAllWanted = false;
  /** Since when the node has a share of the slots. */
  slots: SlotsHeld = NO_SLOTS;
  retrySlots: SlotsHeld = NO_SLOTS;
  /** The instants of the reserved retries of the last window. */
  #reservedRetries: readonly number[] = [];
  readonly #fleet: FleetSize;
  /** When the retry budget was divided last. */
  #dividedAt = Number.NEGATIVE_INFINITY;
  /** The next token of the node's equal part of the rate. */
  #nextTokenAt = 0;

  constructor(fleet: FleetSize) {
    this.#fleet = fleet;
  }

  /** The live nodes of the fleet. */
  get nodes(): number {
    return this.#fleet.nodeCount;
  }

  /** The node's part of the retry budget may have grown since it was determined. */
  get isBudgetOutdated(): boolean {
    return this.#dividedAt < this.#fleet.placeSettledAt;
  }

  /** The retry budget is divided among the nodes. `options`: those of the whole budget. */
  shareBudget(
    { retryBudget }: Guards,
    { retryBudget: whole }: Pick<GuardOptions, "retryBudget">,
    now: number,
  ): void {
    this.#dividedAt = now;
    if (!retryBudget || !whole) return;
    const place = this.#fleet.budgetPlace(windowOf(whole), now);
    if (place === undefined) return;
    const { nodes, maxNodes, isNew } = place;
    const reserved = this.reservedRetries(windowOf(whole), now);
    // Field by field: with a spread, every place would get its own hidden class.
    shareBudget(retryBudget, whole, { nodes, maxNodes, isNew, reserved });
  }

  /** The largest number of nodes since one window of the retry budget ago. */
  maxNodes(budget: RetryBudgetOptions, now: number): number {
    return this.#fleet.budgetPlace(windowOf(budget), now)?.maxNodes ?? 1;
  }

  /** The node got this share in response to its report. `budget`: that of the document. */
  record(
    share: DestinationShare,
    { slots }: DestinationReport,
    budget: RetryBudgetOptions | undefined,
    now: number,
  ): void {
    this.isRowKnown = true;
    this.hasAllWanted = slots !== null && share.slots === slots.wanted;
    this.others = share.others;
    this.reportedAt = now;
    this.slots = heldSince(this.slots, share.slots, now);
    this.retrySlots = heldSince(this.retrySlots, share.retrySlots, now);
    if (budget?.kind === "RATIO") this.#recordRetries(share.retryRate, budget.windowMs, now);
  }

  /** The node's part of the default limits, at least one attempt. It needs no exchange. */
  partOfDefaults(document: Destination): FleetShare {
    const part = this.equalPart({ ...document, rate: undefined }, this.#fleet.place, [], 0);
    return { ...part, slots: Math.max(1, part.slots), retrySlots: Math.max(1, part.retrySlots) };
  }

  /**
   * The node's part of the limits if each node uses an equal one. The parts add up to the limits, as
   * long as the nodes know the same list of nodes. `kept`: reserved tokens that are not used yet.
   */
  equalPart(
    { concurrency, rate }: Destination,
    { nodes, rank }: FleetPlace,
    kept: readonly ReservedTokens[],
    now: number,
  ): FleetShare {
    const partOf = (limit: number) => Math.floor(limit / nodes) + (rank < limit % nodes ? 1 : 0);
    const slots = concurrency ? partOf(concurrency.max) : Number.POSITIVE_INFINITY;
    const retrySlots = concurrency ? partOf(concurrency.maxRetries) : Number.POSITIVE_INFINITY;
    if (rate?.limit === undefined) return { slots, retrySlots, rate: [] };
    const perSecond = rate.limit.perSecond / nodes;
    const use = { perSecond, burst: 1, wanted: Math.ceil(perSecond) };
    const { reservation, nextAt } = reserveRate(use, this.#nextTokenAt, now);
    this.#nextTokenAt = nextAt;
    const intervalMs = 1000 / perSecond;
    const added = reservation === null ? [] : [reservedTokens(reservation, intervalMs)];
    return { slots, retrySlots, rate: [...kept, ...added] };
  }

  /** A node reserves one retry at a time. */
  #recordRetries(reservation: RateReservation | null, windowMs: number, now: number): void {
    const recent = this.#reservedRetries.filter((at) => at > now - windowMs);
    this.#reservedRetries = reservation === null ? recent : [...recent, reservation.startAt];
  }

  /** How many retries were reserved for this node within the last window. */
  reservedRetries(windowMs: number, now: number): number {
    return this.#reservedRetries.filter((at) => at <= now && at > now - windowMs).length;
  }
}

/** Tokens at equal intervals, of which none is used yet. */
export function reservedTokens(
  { startAt, count }: RateReservation,
  intervalMs: number,
): ReservedTokens {
  return { startAt, count, intervalMs, used: 0 };
}

function heldSince(before: SlotsHeld, count: number, now: number): SlotsHeld {
  if (count === 0) return NO_SLOTS;
  return { count, since: before.count === 0 ? now : before.since };
}

/** The window in which a budget counts; 0: it has none. */
export function windowOf(budget: RetryBudgetOptions): number {
  return budget.kind === "RATIO" ? budget.windowMs : 0;
}

// Budget places: this node's place among the nodes that divide a retry budget. What a node used counts
// for a window, so a place depends on the nodes of the last window too.

/** A retry budget with a longer window is divided as if its window were this long. */
const MAX_WINDOW_MS = 60_000;

export type NodePlace = Omit<BudgetPlace, "reserved">;

/** The latest result of `placeAt`, and what it was for. */
interface LastPlace {
  readonly windowMs: number;
  readonly now: number;
  readonly place: NodePlace | undefined;
}

const NO_PLACE: LastPlace = { windowMs: 0, now: Number.NaN, place: undefined };

export class BudgetPlaces {
  readonly #leaseMs: number;
  /** The numbers of nodes, the latest last, and since when. */
  #history: readonly { readonly since: number; readonly nodes: number }[] = [];
  #lastPlace = NO_PLACE;
  /** When this node joined others; -Infinity: it was the first. */
  #joinedAt = Number.NEGATIVE_INFINITY;

  constructor(leaseMs: number) {
    this.#leaseMs = leaseMs;
  }

  /** No number of nodes is known. */
  get isEmpty(): boolean {
    return this.#history.length === 0;
  }

  /** From when the place stays the same, unless the nodes change again; -Infinity: it has none. */
  get settledAt(): number {
    const changedAt = this.#history.at(-1)?.since ?? Number.NEGATIVE_INFINITY;
    return changedAt + this.#leaseMs + MAX_WINDOW_MS + 1;
  }

  /** Undefined: this node has never shared a budget. */
  placeAt(windowMs: number, now: number): NodePlace | undefined {
    const { windowMs: knownMs, now: knownAt, place } = this.#lastPlace;
    // One exchange asks for every destination, and most have the same window.
    if (windowMs === knownMs && now === knownAt) return place;
    const found = this.#find(Math.min(windowMs, MAX_WINDOW_MS), now);
    this.#lastPlace = { windowMs, now, place: found };
    return found;
  }

  #find(windowMs: number, now: number): NodePlace | undefined {
    const latest = this.#history.at(-1);
    if (latest === undefined) return undefined;
    const recent = this.#history.filter(({ since }, at) => {
      const until = this.#history[at + 1]?.since ?? now;
      return until >= now - windowMs || since >= now - windowMs;
    });
    return {
      nodes: latest.nodes,
      maxNodes: Math.max(...recent.map(({ nodes }) => nodes)),
      isNew: this.#isNew(windowMs, now),
    };
  }

  /**
   * A node that cannot reach the store learns of a new node only when its own lease ends. Until then it
   * uses its old part of a retry budget, or all of it, and what it used counts for a window.
   */
  #isNew(windowMs: number, now: number): boolean {
    return now - this.#joinedAt < this.#leaseMs + windowMs;
  }

  /** The number of live nodes has changed, or is known for the first time. */
  record(nodes: number, now: number): void {
    if (this.isEmpty && nodes > 1) this.#joinedAt = now;
    const kept = this.#history.filter(({ since }) => now - since < MAX_WINDOW_MS);
    const last = this.#history.at(-1);
    this.#history = [
      ...(last && !kept.includes(last) ? [last] : []),
      ...kept,
      { since: now, nodes },
    ];
    this.#lastPlace = NO_PLACE;
  }
}
