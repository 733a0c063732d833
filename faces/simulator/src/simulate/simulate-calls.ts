/**
 * Simulate calls: runs calls to one destination with guards. The calls start at given instants, and
 * a script defines how their attempts end. The general engine runs them. The agreement test runs
 * the same script through the other faces and requires the same attempts, holds and ends.
 */
import {
  type DestinationDocument,
  type EndStatus,
  type HoldReason,
  type Patience,
  type Random,
  resolveDestination,
  type StopReason,
} from "@redrive/core";
import { assertAtMost } from "../events/limits.ts";
import { type CallsScenario, DEFAULT_HORIZON_MS, DEFAULT_WINDOW_MS } from "../scenario/scenario.ts";
import { runScript } from "../worlds/calls/script.ts";
import type { ScriptedOutcome } from "./simulate-call.ts";

export interface CallsOptions {
  /** Guards that are missing in the document are off. */
  readonly destination: DestinationDocument;
  readonly patience: Patience;
  /** Epoch ms, because guards use clock time. */
  readonly startAt: number;
  /** When each call starts, in whole ms from the start, in ascending order. At most 1 000 000. */
  readonly arrivals: readonly number[];
  /**
   * How an attempt ends, unless its timeout comes first. Calls and copies count from 0, attempts
   * from 1.
   */
  outcomeOf(call: number, attempt: number, copy: number): ScriptedOutcome;
  /** The random stream of one call. */
  randomOf(call: number): Random;
  /** The random stream of the destination's guards. */
  readonly guardRandom: Random;
}

/** Instants are in ms from the start. */
export interface SimulatedAttempt {
  /** Index in `arrivals`. */
  readonly call: number;
  /** From 1; copies share it. */
  readonly attempt: number;
  /** 0 for the original, 1 and up for hedges. */
  readonly copy: number;
  readonly dueAt: number;
  /** When it was sent. */
  readonly at: number;
  /** The guard that held it; absent if it was sent when it was due. */
  readonly heldBy?: HoldReason;
}

export interface SimulatedEnd {
  readonly call: number;
  readonly at: number;
  readonly status: EndStatus;
  readonly reason: StopReason;
  /** For `held`: the guard that held it. */
  readonly by?: HoldReason;
}

/** Both lists are in order of time. */
export interface SimulatedCalls {
  readonly attempts: readonly SimulatedAttempt[];
  readonly ends: readonly SimulatedEnd[];
}

const MAX_CALLS = 1_000_000;

/**
 * Events of one instant run in this order: attempts end; due retries and hedges are sent, and
 * waiting calls are sent or end; new calls start.
 */
export function simulateCalls(options: CallsOptions): SimulatedCalls {
  const { arrivals, startAt, guardRandom } = options;
  assertAtMost(arrivals.length, MAX_CALLS, "calls");
  const attempts: SimulatedAttempt[] = [];
  const ends: SimulatedEnd[] = [];
  const streams = new Map<number, Random>();
  const randomOf = (call: number) => {
    const stream = streams.get(call) ?? options.randomOf(call);
    streams.set(call, stream);
    return stream;
  };
  const startsAt = arrivals.map((at) => startAt + at);
  runScript(scenarioOf(options), startsAt, {
    startAt,
    guardRandom,
    randomOf,
    outcomeOf: (call, attempt, copy) => options.outcomeOf(call, attempt, copy),
    onSend({ client: call, attempt, copy, heldBy, ...sent }) {
      const [dueAt, at] = [sent.dueAt - startAt, sent.at - startAt];
      attempts.push({ call, attempt, copy, dueAt, at, ...(heldBy && { heldBy }) });
    },
    onEnd(call, endedAt, stopReason, by) {
      const reason = stopReason as StopReason;
      const at = endedAt - startAt;
      ends.push({ call, at, status: statusOf(reason), reason, ...(by && { by }) });
    },
  });
  return { attempts, ends };
}

function statusOf(reason: StopReason): EndStatus {
  if (reason === "succeeded") return "SUCCEEDED";
  return reason === "aborted" ? "CANCELLED" : "EXHAUSTED";
}

/** The script replaces the server. */
function scenarioOf({ destination, patience, arrivals }: CallsOptions): CallsScenario {
  return {
    world: "CALLS",
    name: "script",
    horizonMs: DEFAULT_HORIZON_MS,
    windowMs: DEFAULT_WINDOW_MS,
    clients: { kind: "CLOSED", count: arrivals.length, jobs: 1 },
    guards: "SHARED",
    patience,
    tiers: [
      {
        name: "script",
        destination: resolveDestination(destination, "simulator"),
        breakerPerShard: false,
        server: {},
      },
    ],
    timeline: [],
  };
}
