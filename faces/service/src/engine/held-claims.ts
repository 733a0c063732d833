/**
 * Held claims: the claims of this node from the commit of the claim to the commit of its settle. The
 * rescuer of this node must not touch them.
 */
import type { Permit } from "@redrive/core";
import type { AttemptResult } from "../deliver/attempt-result.ts";
import type { LightSignal } from "../deliver/light-signal.ts";
import type { Settle, StartedTask, TaskRef } from "../model/batch.ts";
import { type AttemptWait, laneOf, NO_WAITS } from "../model/task.ts";
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
