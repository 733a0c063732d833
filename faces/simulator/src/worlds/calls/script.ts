/**
 * Script: runs calls with given start times and outcomes in the general engine. The script replaces
 * the wire and the servers; the client side is unchanged.
 */
import type { HoldReason, Outcome, Random } from "@redrive/core";
import { pushEvent } from "../../events/heap.ts";
import type { CallsScenario } from "../../scenario/scenario.ts";
import { holdReasonOf } from "../client-server/caller.ts";
import { addCallers } from "./attempts.ts";
import { runEvents } from "./calls.ts";
import { callerOf, createWorld, RESPONSE, type Script, START, type World } from "./world.ts";

/** A call has the number of its client. Instants are epoch ms, because guards use clock time. */
export interface ScriptOptions {
  readonly startAt: number;
  readonly guardRandom: Random;
  randomOf(client: number): Random;
  outcomeOf(
    client: number,
    attempt: number,
    copy: number,
  ): { readonly outcome: Outcome; readonly durationMs: number };
  onSend(sent: ScriptedSend): void;
  onEnd(client: number, at: number, reason: string, by: HoldReason | undefined): void;
}

export interface ScriptedSend {
  readonly client: number;
  readonly attempt: number;
  readonly copy: number;
  readonly dueAt: number;
  readonly at: number;
  /** The guard that held it last; undefined if it was sent when it was due. */
  readonly heldBy: HoldReason | undefined;
}

/** Each client makes one call at its instant. The tally counts in epoch ms and is not used. */
export function runScript(
  scenario: CallsScenario,
  startsAt: readonly number[],
  options: ScriptOptions,
): void {
  const script = scriptOf(options, () => world);
  const world = createWorld(scenario, 0, { script });
  world.now = options.startAt;
  addCallers(world, options.guardRandom);
  for (const [client, at] of startsAt.entries()) pushEvent(world.heap, at, START, client);
  runEvents(world);
}

function scriptOf(options: ScriptOptions, worldOf: () => World): Script {
  const dueAt: number[] = [];
  const outcomes: Outcome[] = [];
  const clientOf = (call: number) => worldOf().calls.client[call] as number;
  return {
    randomOf: (call) => options.randomOf(clientOf(call)),
    onDue(call) {
      dueAt[call] = worldOf().now;
    },
    onSend(request) {
      const { calls, requests, heap, now: at } = worldOf();
      const call = requests.call[request] as number;
      const copy = requests.copy[request] as number;
      const attempt = calls.attempt[call] as number;
      const client = clientOf(call);
      const wasDueAt = copy > 0 ? at : (dueAt[call] as number);
      const heldBy = wasDueAt < at ? holdReasonOf(callerOf(worldOf(), call), call) : undefined;
      options.onSend({ client, attempt, copy, dueAt: wasDueAt, at, heldBy });
      const { outcome, durationMs } = options.outcomeOf(client, attempt, copy);
      outcomes[request] = outcome;
      pushEvent(heap, at + durationMs, RESPONSE, request);
    },
    outcomeOf: (request) => outcomes[request] as Outcome,
    onEnd: (call, reason, by) => options.onEnd(clientOf(call), worldOf().now, reason, by),
  };
}
