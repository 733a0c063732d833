/**
 * Held claims: the claims of this node from the commit of the claim to the commit of its settle. The
 * rescuer of this node must not touch them.
 */
import type { Cancel, Clock, Permit } from "@redrive/core";
import { createHeap } from "../collections/heap.ts";
import type { AttemptResult, LightSignal } from "../deliver/attempt.ts";
import type { Settle, StartedTask, TaskRef } from "../model/batch.ts";
import { type AttemptWait, laneOf, NO_WAITS } from "../model/task.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { DestinationRuntime } from "./destination-runtime.ts";
import type { Hold } from "./lanes.ts";

export interface HeldClaim {
  readonly task: StartedTask;
  readonly destination: DestinationRuntime;
  readonly permit: Permit;
  /** The origin of its slot; undefined: it has no slot. */
  readonly origin: string | undefined;
  /** The guard or limit that held the task after it was due; undefined: none did. */
  hold: Hold | undefined;
  readonly isSuspect: boolean;
  /** It is in the send queue or the token queue. */
  isWaiting: boolean;
  /** Until when it waits for a token of a rate; 0: it has not waited for one. */
  waitsUntil: number;
  /** When the request was sent; 0 before. */
  startedAt: number;
  /** How long it waited after it was due; known once the request is sent. */
  waits: readonly AttemptWait[];
  /** Aborts the attempt; undefined while no request is under way. */
  signal: LightSignal | undefined;
  /** Undefined: no attempt is under way, or none is traced. */
  trace: AttemptTrace | undefined;
  /** Its index in the list. */
  slot: number;
}

/**
 * A list and not a map: a map that is filled and emptied all the time is copied again and again, and
 * its old copies prevent the collector from freeing ended claims early.
 */
export class HeldClaims {
  readonly #claims: HeldClaim[] = [];
  #suspects = 0;

  get size(): number {
    return this.#claims.length;
  }

  hasSuspect(): boolean {
    return this.#suspects > 0;
  }

  has({ tenantId, taskId }: TaskRef): boolean {
    return this.#claims.some(({ task }) => task.taskId === taskId && task.tenantId === tenantId);
  }

  values(): readonly HeldClaim[] {
    return this.#claims;
  }

  add(
    task: StartedTask,
    destination: DestinationRuntime,
    permit: Permit,
    origin: string | undefined,
    hold: Hold | undefined,
  ): HeldClaim {
    const claim: HeldClaim = {
      task,
      destination,
      permit,
      origin,
      hold,
      isSuspect: laneOf(task.attemptNumber, task.abandonedCount) === "suspect",
      isWaiting: false,
      waitsUntil: 0,
      startedAt: 0,
      waits: NO_WAITS,
      signal: undefined,
      trace: undefined,
      slot: this.#claims.length,
    };
    this.#claims.push(claim);
    destination.users++;
    if (claim.isSuspect) this.#suspects++;
    return claim;
  }

  /** Moves the last claim to the free slot. */
  remove(claim: HeldClaim): void {
    const last = this.#claims.pop() as HeldClaim;
    if (last !== claim) this.#claims[claim.slot] = last;
    last.slot = claim.slot;
    claim.destination.users--;
    if (claim.isSuspect) this.#suspects--;
  }
}

// Attempt trace: how the engine reports one attempt to a tracer. Without a tracer, nothing of this runs.
// `telemetry/` implements it.

export interface AttemptTrace {
  /** Sent to the target, so that its spans continue the trace. */
  readonly traceparent: string;
  /** The attempt has ended. */
  recordResult(result: AttemptResult): void;
  /** It is decided what follows. Called once, last. */
  end(settle: Settle): void;
}

/** Called immediately before an attempt starts. `waits`: since the attempt was due. `now`: epoch ms. */
export type StartTrace = (
  task: StartedTask,
  waits: readonly AttemptWait[],
  now: number,
) => AttemptTrace;

// Send queue: claims that were committed a little ahead of time, until their tasks are due. It uses
// one alarm, for the earliest claim.

/** A claim that can wait in the queue. */
interface QueuedClaim {
  readonly task: StartedTask;
  /** True while it waits. Setting it to false recalls the claim: it is not sent. */
  isWaiting: boolean;
}

export class SendQueue<Claim extends QueuedClaim> {
  readonly #clock: Clock;
  readonly #time: EngineTime;
  readonly #send: (claim: Claim) => void;
  /** Recalled claims stay in the heap until they reach the top. */
  readonly #heap = createHeap<Claim>(({ task: a }, { task: b }) =>
    a.nextAttemptAt === b.nextAttemptAt ? a.ref < b.ref : a.nextAttemptAt < b.nextAttemptAt,
  );
  #cancelAlarm: Cancel | undefined;
  #alarmAt = Number.POSITIVE_INFINITY;

  /** `send` is called when the task is due. */
  constructor(clock: Clock, time: EngineTime, send: (claim: Claim) => void) {
    this.#clock = clock;
    this.#time = time;
    this.#send = send;
  }

  add(claim: Claim): void {
    claim.isWaiting = true;
    this.#heap.push(claim);
    this.#arm();
  }

  #arm(): void {
    const at = this.#heap.peek()?.task.nextAttemptAt ?? Number.POSITIVE_INFINITY;
    if (at >= this.#alarmAt) return;
    this.#cancelAlarm?.();
    this.#alarmAt = at;
    this.#cancelAlarm = this.#clock.alarm(this.#time.msUntil(at), this.#ring);
  }

  /** Alarms have a resolution of one millisecond. A caller that runs anyway may check earlier. */
  runOnce(now: number): void {
    if (this.#alarmAt > now) return;
    this.#cancelAlarm?.();
    this.#ring();
  }

  readonly #ring = (): void => {
    this.#alarmAt = Number.POSITIVE_INFINITY;
    const now = this.#time.now();
    for (let claim = this.#popDue(now); claim !== undefined; claim = this.#popDue(now)) {
      if (!claim.isWaiting) continue;
      claim.isWaiting = false;
      this.#send(claim);
    }
    this.#arm();
  };

  #popDue(now: number): Claim | undefined {
    const first = this.#heap.peek();
    return first !== undefined && first.task.nextAttemptAt <= now ? this.#heap.pop() : undefined;
  }
}

// Token queue: committed claims that wait for a token of their destination's rate, in the order of their
// claims. Each destination has one alarm, for its next token.

/** A destination whose calls may have to wait for a token. */
interface TokenSource {
  /** When the next call may be sent; `now`: at once. */
  startsAt(now: number): number;
}

interface TokenClaim {
  readonly destination: TokenSource;
  /** True while it waits. Setting it to false recalls the claim: it is not sent. */
  isWaiting: boolean;
  /** Until when it waits for a token; 0: it has not waited yet. */
  waitsUntil: number;
}

/**
 * A claim takes tokens of the next 50 ms, so this is rarely reached. A claim that waits longer, because
 * the document has changed or the node was late, is returned.
 */
const MAX_WAIT_MS = 200;

interface Waiting<Claim> {
  /** The claims before `first` have been sent. */
  readonly claims: Claim[];
  first: number;
}

export class TokenQueue<Claim extends TokenClaim> {
  readonly #clock: Clock;
  readonly #time: EngineTime;
  readonly #send: (claim: Claim) => void;
  readonly #waiting = new Map<TokenSource, Waiting<Claim>>();

  /** `send` is called when there is a token, or when there will be none in time. */
  constructor(clock: Clock, time: EngineTime, send: (claim: Claim) => void) {
    this.#clock = clock;
    this.#time = time;
    this.#send = send;
  }

  /** Others of the destination wait, so a new claim must wait behind them. */
  isWaiting(destination: TokenSource): boolean {
    return this.#waiting.has(destination);
  }

  /** There is no token now, but there will be one in time. */
  mayWait(claim: Claim, now: number): boolean {
    const startsAt = claim.destination.startsAt(now);
    return startsAt > now && startsAt <= (claim.waitsUntil || now + MAX_WAIT_MS);
  }

  add(claim: Claim): void {
    const { destination } = claim;
    claim.isWaiting = true;
    claim.waitsUntil ||= this.#time.now() + MAX_WAIT_MS;
    const waiting = this.#waiting.get(destination);
    if (waiting !== undefined) {
      waiting.claims.push(claim);
      return;
    }
    const added = { claims: [claim], first: 0 };
    this.#waiting.set(destination, added);
    this.#arm(destination, added);
  }

  #arm(destination: TokenSource, waiting: Waiting<Claim>): void {
    const now = this.#time.now();
    const waitsUntil = waiting.claims[waiting.first]?.waitsUntil ?? now;
    const at = Math.min(destination.startsAt(now), waitsUntil);
    this.#clock.alarm(this.#time.msUntil(at), () => this.#ring(destination, waiting));
  }

  #ring(destination: TokenSource, waiting: Waiting<Claim>): void {
    const now = this.#time.now();
    const { claims } = waiting;
    for (let claim = claims[waiting.first]; claim !== undefined; claim = claims[++waiting.first]) {
      if (!claim.isWaiting) continue;
      if (this.mayWait(claim, now)) {
        claims.splice(0, waiting.first);
        waiting.first = 0;
        this.#arm(destination, waiting);
        return;
      }
      claim.isWaiting = false;
      this.#send(claim);
    }
    this.#waiting.delete(destination);
  }
}
