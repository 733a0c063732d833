/**
 * Calls: clients, open or closed, that call tiers of servers under core's policies and guards. The
 * general engine: discrete events on a heap, one event at a time.
 */
import { RedriveError } from "@redrive/core";
import { exponential, type Span, spanOf } from "../chance/spans.ts";
import { popEvent, pushEvent } from "../engine/heap.ts";
import { isTold, type OnProgress } from "../engine/progress.ts";
import type { CallsScenario, ClosedClients, OpenClients } from "../scenario.ts";
import { startCall, tryAttempt } from "./attempts.ts";
import type { OnDone } from "./call-state.ts";
import { onAnswer, onTimeout } from "./outcomes.ts";
import { NONE } from "./pools.ts";
import { onHedge } from "./sending.ts";
import { onFinish, onReach, onServed, startService } from "./serving.ts";
import {
  ANSWER,
  ARRIVAL,
  createWorld,
  FINISH,
  HEDGE,
  REACH,
  type RunOptions,
  SEND,
  SERVED,
  START,
  serverOf,
  TIMEOUT,
  WAKE,
  type World,
} from "./world.ts";
import type { WorldRun } from "./world-run.ts";

/** No run is longer: enough for an hour of 10 000 calls a second. */
const MOST_EVENTS = 400_000_000;

export function runCalls(
  scenario: CallsScenario,
  seed: number | string,
  options: RunOptions = {},
): WorldRun {
  const world = createWorld(scenario, seed, options);
  const { clients } = scenario;
  const onDone =
    clients.kind === "CLOSED" ? startClosed(world, clients) : startOpen(world, clients);
  // Clients with a fixed number of jobs are followed to the end of the last one.
  const runsOut = clients.kind === "CLOSED" && clients.jobs !== undefined;
  turn(world, runsOut ? Number.POSITIVE_INFINITY : scenario.horizonMs, onDone, options.onProgress);
  const { timeline } = serverOf(world, world.servers.length - 1);
  return {
    engine: "calls",
    tally: world.tally,
    fairness: fairnessOf(world),
    triggerStartMs: timeline.startMs,
    triggerEndMs: timeline.endMs,
  };
}

function turn(
  world: World,
  untilMs: number,
  onDone: OnDone,
  onProgress: OnProgress | undefined,
): void {
  const { heap, trace } = world;
  for (let events = 0; popEvent(heap); events++) {
    const { at, kind, subject } = heap;
    if (at > untilMs) return;
    if (events >= MOST_EVENTS) {
      throw new RedriveError(
        "INVALID_ARGUMENT",
        `the scenario has more than ${MOST_EVENTS} events`,
      );
    }
    world.now = at;
    if (onProgress !== undefined && isTold(events)) onProgress(shareOver(world));
    trace?.note(at, kind, subject);
    step(world, kind, subject, onDone);
  }
}

/** By time; clients that run to the end of their jobs are counted by jobs. */
function shareOver({ scenario, tally, now }: World): number {
  const { clients, horizonMs } = scenario;
  const { jobs } = clients as ClosedClients;
  if (jobs === undefined) return Math.min(1, now / horizonMs);
  return (tally.succeeded + tally.lost) / (jobs * (clients.count ?? 1));
}

function step(world: World, kind: number, subject: number, onDone: OnDone): void {
  switch (kind) {
    case ARRIVAL:
      onArrival(world, world.scenario.clients as OpenClients, onDone);
      break;
    case SEND:
      tryAttempt(world, subject, onDone);
      break;
    case REACH:
      onReach(world, subject);
      break;
    case SERVED:
      onServed(world, subject);
      break;
    case ANSWER:
      onAnswer(world, subject, onDone);
      break;
    case TIMEOUT:
      onTimeout(world, subject, onDone);
      break;
    case HEDGE:
      onHedge(world, subject);
      break;
    case START:
      startCall(world, 0, subject, subject, NONE, onDone);
      break;
    case FINISH:
      onFinish(world, subject, onDone);
      break;
    case WAKE:
      startService(world, subject);
      break;
  }
}

/** Poisson traffic by thinning: candidates come at the highest rate there will be. */
function startOpen(world: World, clients: OpenClients): OnDone {
  scheduleArrival(world, clients);
  return () => undefined;
}

function scheduleArrival(world: World, clients: OpenClients): void {
  const { peakLoad } = serverOf(world, 0).timeline;
  const gapMs = (1000 * exponential(world.arrivals)) / (clients.ratePerSecond * peakLoad);
  const at = world.now + gapMs;
  const untilMs = clients.untilMs ?? world.scenario.horizonMs;
  if (at < untilMs) pushEvent(world.heap, at, ARRIVAL, 0);
}

function onArrival(world: World, clients: OpenClients, onDone: OnDone): void {
  scheduleArrival(world, clients);
  const { timeline } = serverOf(world, 0);
  const { peakLoad } = timeline;
  if (peakLoad > 1 && world.arrivals.next() * peakLoad >= timeline.loadAt(world.now)) return;
  const { count = 1 } = clients;
  const client = count > 1 ? Math.floor(world.arrivals.next() * count) : 0;
  startCall(world, 0, client, client, NONE, onDone);
}

/** Closed clients: each starts its next call when the last one is over. */
function startClosed(world: World, clients: ClosedClients): OnDone {
  const { count, startSpreadMs = 0 } = clients;
  const think: Span = spanOf(clients.think ?? 0);
  const jobs = clients.jobs ?? Number.POSITIVE_INFINITY;
  for (let client = 0; client < count; client++) {
    const firstMs = clients.think === undefined ? 0 : think(world.arrivals);
    pushEvent(world.heap, (startSpreadMs * client) / count + firstMs, START, client);
  }
  return (_, client) => {
    if ((world.callsOf[client] as number) >= jobs) return;
    pushEvent(world.heap, world.now + think(world.arrivals), START, client);
  };
}

/** Jain's index of the share of calls that succeeded, over clients that made any. */
function fairnessOf({ callsOf, successesOf }: World): number {
  let sum = 0;
  let squares = 0;
  let count = 0;
  for (let client = 0; client < callsOf.length; client++) {
    const calls = callsOf[client] as number;
    if (calls === 0) continue;
    const share = (successesOf[client] as number) / calls;
    sum += share;
    squares += share * share;
    count++;
  }
  return squares === 0 ? 1 : (sum * sum) / (count * squares);
}
