/**
 * Simulate calls: calls to one destination, with its guards, that come at given instants and end as a
 * script says. The general engine runs them. The agreement test runs the same script through the
 * other faces and demands the same attempts, holds and ends.
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
import { assertMost } from "../events/limits.ts";
import { type CallsScenario, DEFAULT_HORIZON_MS, DEFAULT_WINDOW_MS } from "../scenario/scenario.ts";
import { runScript } from "../worlds/calls/script.ts";
import type { ScriptedOutcome } from "./simulate-call.ts";

export interface CallsOptions {
  /** Guards that the document does not name are off. */
  readonly destination: DestinationDocument;
  readonly patience: Patience;
  /** Epoch ms: guards count by the clock. */
  readonly startAt: number;
  /** When each call comes, in whole ms from the start, in ascending order. At most 1 000 000. */
  readonly arrivals: readonly number[];
  /** How an attempt ends, unless its timeout comes first. Calls and copies from 0, attempts from 1. */
  outcomeOf(call: number, attempt: number, copy: number): ScriptedOutcome;
  /** The call's own stream of chance. */
  randomOf(call: number): Random;
  /** The stream of the destination's guards. */
  readonly guardRandom: Random;
}

/** Instants are in ms from the start. */
export interface SimulatedAttempt {
  /** Index in `arrivals`. */
  readonly call: number;
  /** From 1; copies share it. */
  readonly attempt: number;
  /** 0 is no hedge. */
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
 * At one instant attempts end first; then retries and hedges are sent that are due, and calls that
 * wait go or end; new calls come last.
 */
export function simulateCalls(options: CallsOptions): SimulatedCalls {
  const { arrivals, startAt, guardRandom } = options;
  assertMost(arrivals.length, MAX_CALLS, "calls");
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
    onEnd(call, endedAt, told, by) {
      const reason = told as StopReason;
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

/** The script plays the server. */
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
