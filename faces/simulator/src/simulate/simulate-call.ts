/**
 * Simulate call: runs one call against a script of outcomes. Each decision becomes an event on the
 * event queue. The agreement test runs the same script through the library and requires the same
 * attempts at the same instants.
 */
import {
  type CallRequest,
  decide,
  type EndStatus,
  OPEN_GATES,
  type Outcome,
  type PolicyDocument,
  type PresetName,
  type Random,
  type StopReason,
} from "@redrive/core";
import { createHeap, popEvent, pushEvent } from "../events/heap.ts";
import { policyOf } from "../schedule/policy-of.ts";

/**
 * The outcome and the duration of one attempt. The last entry also applies to all later attempts.
 */
export interface ScriptedOutcome {
  readonly outcome: Outcome;
  readonly durationMs: number;
}

export interface CallOptions {
  /** The random stream of this call. */
  readonly random: Random;
  readonly request?: CallRequest;
  /** Epoch ms. Default: 0. */
  readonly startAt?: number;
}

export interface SimulatedCall {
  /** When each attempt started. */
  readonly startsAt: readonly number[];
  readonly endedAt: number;
  readonly status: EndStatus;
  readonly reason: StopReason;
}

const START = 0;
const END = 1;

export function simulateCall(
  policy: PolicyDocument | PresetName,
  script: readonly ScriptedOutcome[],
  options: CallOptions,
): SimulatedCall {
  const { random, request = {}, startAt = 0 } = options;
  const resolved = policyOf(policy);
  const heap = createHeap();
  const startsAt: number[] = [];
  let previousDelayMs = 0;
  pushEvent(heap, startAt, START, 0);
  while (popEvent(heap)) {
    const { at } = heap;
    const attempt = startsAt.length + (heap.kind === START ? 1 : 0);
    const step = script[Math.min(attempt, script.length) - 1] as ScriptedOutcome;
    if (heap.kind === START) {
      startsAt.push(at);
      pushEvent(heap, at + step.durationMs, END, 0);
      continue;
    }
    const history = { attempt, startedAt: startAt, previousDelayMs };
    const decision = decide(resolved, request, history, step.outcome, OPEN_GATES, at, random);
    if (decision.kind === "stop") {
      return { startsAt, endedAt: at, status: decision.status, reason: decision.reason };
    }
    previousDelayMs = decision.ownDelayMs;
    pushEvent(heap, decision.kind === "hold" ? decision.until : at + decision.delayMs, START, 0);
  }
  return { startsAt, endedAt: startAt, status: "EXHAUSTED", reason: "attempts" };
}
