/**
 * Call state: what core needs to know about a call, and how a call ends. `attempts.ts` and
 * `outcomes.ts` share it.
 */
import type { AdmissionRequest, CallHistory, HoldReason } from "@redrive/core";
import { countLost, countSucceeded } from "../../measure/tally.ts";
import { NONE, release } from "../client-server/pools.ts";
import { FAILED, OK } from "../client-server/server.ts";
import { respond, type World } from "./world.ts";

export function historyOf({ calls }: World, call: number): CallHistory {
  return {
    attempt: calls.attempt[call] as number,
    startedAt: calls.startedAt[call] as number,
    previousDelayMs: calls.previousMs[call] as number,
  };
}

/** The admission request of the next attempt. */
export function admissionFor({ calls, admissions }: World, call: number): AdmissionRequest {
  const isRetry = (calls.attempt[call] as number) > 0;
  return admissions[isRetry ? 1 + (calls.throttled[call] as number) : 0] as AdmissionRequest;
}

/** Ends a call; `reason` is undefined for success. */
export function endCall(
  world: World,
  call: number,
  reason: string | undefined,
  by?: HoldReason,
): void {
  const { calls, tally, now } = world;
  const parent = calls.parent[call] as number;
  const client = calls.client[call] as number;
  calls.generation[call] = (calls.generation[call] as number) + 1;
  calls.free.push(call);
  if (parent !== NONE) {
    respond(world, parent, reason === undefined ? OK : FAILED);
    release(world.requests, parent);
    return;
  }
  const tookMs = now - (calls.startedAt[call] as number);
  if (reason === undefined) {
    countSucceeded(tally, now, tookMs);
    world.successesOf[client] = (world.successesOf[client] as number) + 1;
  } else countLost(tally, reason, now);
  world.script?.onEnd(call, reason ?? "succeeded", by);
  world.onDone(client, tookMs);
}
