/**
 * Simulate: runs one seed. Three nodes with the production engine share a store that fails, or one
 * node has its own store. Nodes are killed, stopped and paused while every checker runs (safety).
 * Then the faults stop, and every task must end in bounded time (liveness).
 */
import { messageOf, type Random, seededRandom } from "@redrive/core";
import { Clients } from "./clients.ts";
import type { Coverage } from "./coverage.ts";
import { drawFeatures } from "./features.ts";
import { Operators } from "./operators.ts";
import { Redrivers } from "./redrivers.ts";
import { SimNode } from "./sim-node.ts";
import { Tenants } from "./tenants.ts";
import { START_AT, World, type WorldOptions } from "./world.ts";

const TASKS = 250;
const CROWD = 1200;
const SAFETY_MS = 45_000;
/** Longer than the maximum total budget plus a lease. */
const LIVENESS_MS = 240_000;
const FAULT_RATE = 0.1;
/** By then the leases of dead nodes have ended, and the clocks of nodes that slept have followed. */
const PROMPT_AFTER_MS = 30_000;
/** By then the last of the prompt tasks has been created. */
const PROMPT_END_MS = PROMPT_AFTER_MS + 5000;

/** Throws the first violation, with the seed and the replay command in the message. */
export async function simulateSeed(seed: number, options: WorldOptions): Promise<void> {
  const random = seededRandom(seed);
  // The name of a stream is part of every seed: renaming it would change all runs.
  const world = new World(random, FAULT_RATE, drawFeatures(random.fork("kinds")), options);
  try {
    await runSeed(world, random.fork("plan"), options.coverage);
  } catch (error) {
    throw new Error(failureText(seed, error), { cause: error });
  }
}

function failureText(seed: number, error: unknown): string {
  const replay = `REDRIVE_SEED=${seed} npx vitest run test/simulation/replay.test.ts`;
  return `seed ${seed}: ${messageOf(error)}\n  replay with: ${replay}`;
}

async function runSeed(world: World, random: Random, coverage: Coverage): Promise<void> {
  await world.prepare();
  const nodes = Array.from(
    { length: world.features.isSingle ? 1 : world.features.nodes },
    (_, index) => {
      const name = `n${index}`;
      return new SimNode(world, random.fork(name), name);
    },
  );
  for (const node of nodes) node.boot();
  const clients = new Clients(world, random.fork("clients"), nodes);
  const draw = (below: number) => Math.floor(random.next() * below);
  const tasks = TASKS + draw(40);
  clients.plan(tasks, SAFETY_MS - 5000);
  if (world.features.crowd) clients.planCrowd(CROWD, SAFETY_MS);
  const operators = planOperators(world, random.fork("operators"), nodes);
  planRedrives(world, random.fork("redrives"), nodes);
  planTenants(world, random.fork("tenants"), nodes);
  const crashes = planCrashes(world, nodes, draw);
  const pauses = planPauses(world, nodes, draw);
  const stops = planStops(world, nodes, draw);
  const sleeps = planSleeps(world, random.fork("sleeps"), nodes);
  planCuts(world, random.fork("cuts"), nodes);
  planClockSteps(world, random.fork("clock steps"), nodes);

  await world.clock.runUntil(START_AT + SAFETY_MS, () => world.violation !== undefined);
  heal(world, nodes);
  operators.resumeAll();
  new Tenants(world, random.fork("prompt"), nodes).planPrompt(PROMPT_AFTER_MS);
  let nextCheckAt = START_AT + SAFETY_MS + PROMPT_END_MS;
  const isDone = () => {
    if (world.violation !== undefined) return true;
    if (world.clock.now() < nextCheckAt) return false;
    nextCheckAt = world.clock.now() + 1000;
    return world.isFinished();
  };
  await world.clock.runUntil(START_AT + SAFETY_MS + LIVENESS_MS, isDone);
  world.check("finished", world.rawStore);
  if (world.violation !== undefined) throw world.violation;
  const { totals } = coverage;
  totals.seeds++;
  totals.tasks += tasks;
  totals.crashes += crashes;
  totals.pauses += pauses;
  totals.stops += stops;
  totals.sleeps += sleeps;
  totals.steps += world.clock.steps;
  if (world.features.isSingle) totals.singles++;
  coverage.addFaults(world.faults.counts);
  coverage.addFaults(world.diskFaults.counts);
  coverage.addFaults({ ...world.refusals });
}

function planOperators(world: World, random: Random, nodes: readonly SimNode[]): Operators {
  const operators = new Operators(world, random.fork("draws"), nodes);
  const draw = (below: number) => Math.floor(random.next() * below);
  if (random.next() < 0.5) operators.pause(draw(20_000), 1000 + draw(8000));
  for (let skews = world.features.versionSkew ? 2 : 0; skews > 0; skews--) {
    operators.putNewerDocument(draw(SAFETY_MS - 10_000), 1000 + draw(6000));
  }
  if (!world.features.documents) return operators;
  for (let puts = 3 + draw(6); puts > 0; puts--) operators.putDocument(draw(SAFETY_MS));
  for (let pauses = draw(3); pauses > 0; pauses--) {
    operators.pause(draw(SAFETY_MS - 10_000), 300 + draw(3000));
  }
  return operators;
}

function planRedrives(world: World, random: Random, nodes: readonly SimNode[]): void {
  if (!world.features.redrives) return;
  const redrivers = new Redrivers(world, random.fork("draws"), nodes);
  const draw = (below: number) => Math.floor(random.next() * below);
  for (let rounds = 4 + draw(6); rounds > 0; rounds--) {
    redrivers.planRedrives(5000 + draw(SAFETY_MS - 5000));
  }
  for (let jobs = 1 + draw(2); jobs > 0; jobs--)
    redrivers.planJob(10_000 + draw(SAFETY_MS - 10_000));
}

function planTenants(world: World, random: Random, nodes: readonly SimNode[]): void {
  if (!world.features.tenants) return;
  const tenants = new Tenants(world, random.fork("draws"), nodes);
  for (let backlogs = 2; backlogs > 0; backlogs--) {
    tenants.plan(5000 + Math.floor(random.next() * (SAFETY_MS - 10_000)));
  }
}

/** Plans at least five crashes in every seed. */
function planCrashes(
  world: World,
  nodes: readonly SimNode[],
  draw: (below: number) => number,
): number {
  const crashes = 5 + draw(4);
  for (let n = 0; n < crashes; n++) {
    const node = nodes[draw(nodes.length)] as SimNode;
    const atMs = 1000 + draw(SAFETY_MS - 6000);
    world.clock.set(atMs, () => node.kill());
    world.clock.set(atMs + 1 + draw(5000), () => {
      if (!node.isUp()) node.boot();
    });
  }
  return crashes;
}

/** Some pauses exceed the lease. Other nodes then claim tasks that the paused node still runs. */
function planPauses(
  world: World,
  nodes: readonly SimNode[],
  draw: (below: number) => number,
): number {
  const pauses = 1 + draw(3);
  for (let n = 0; n < pauses; n++) {
    const node = nodes[draw(nodes.length)] as SimNode;
    world.clock.set(draw(SAFETY_MS - 20_000), () => node.freeze(1000 + draw(17_000)));
  }
  return pauses;
}

/** The machine of a node sleeps. Its time is behind afterwards, and follows the wall clock. */
function planSleeps(world: World, random: Random, nodes: readonly SimNode[]): number {
  const draw = (below: number) => Math.floor(random.next() * below);
  const sleeps = draw(3);
  for (let n = 0; n < sleeps; n++) {
    const node = nodes[draw(nodes.length)] as SimNode;
    const forMs = 500 + draw(20_000);
    world.clock.set(draw(SAFETY_MS - 20_000), () => node.suspend(forMs));
  }
  return sleeps;
}

/** A node is cut off for up to 15 seconds, which is longer than its lease. */
function planCuts(world: World, random: Random, nodes: readonly SimNode[]): void {
  if (!world.features.cuts || world.features.isSingle) return;
  const draw = (below: number) => Math.floor(random.next() * below);
  for (let cuts = 2 + draw(3); cuts > 0; cuts--) {
    const node = nodes[draw(nodes.length)] as SimNode;
    const forMs = 500 + draw(14_500);
    const kind = draw(2) === 0 ? "requests" : "responses";
    world.clock.set(draw(SAFETY_MS - 16_000), () => node.cutOff(forMs, kind));
  }
}

/** The wall clock of a machine is set, by up to an hour in either direction. */
function planClockSteps(world: World, random: Random, nodes: readonly SimNode[]): void {
  if (!world.features.clocks || world.features.isSingle) return;
  const draw = (below: number) => Math.floor(random.next() * below);
  for (let steps = draw(4); steps > 0; steps--) {
    const node = nodes[draw(nodes.length)] as SimNode;
    const byMs = draw(7_200_000) - 3_600_000;
    world.clock.set(draw(SAFETY_MS), () => node.stepClock(byMs));
  }
}

/** Some stops give running attempts no time to end. */
function planStops(
  world: World,
  nodes: readonly SimNode[],
  draw: (below: number) => number,
): number {
  const stops = 1 + draw(3);
  for (let n = 0; n < stops; n++) {
    const node = nodes[draw(nodes.length)] as SimNode;
    const graceMs = draw(2) * draw(3000);
    world.clock.set(1000 + draw(SAFETY_MS - 6000), () => node.stop(graceMs));
  }
  return stops;
}

/** Stops the faults, makes all targets healthy and boots every node. */
function heal(world: World, nodes: readonly SimNode[]): void {
  world.heal();
  for (const node of nodes) {
    node.freeze(0);
    if (!node.isUp()) {
      node.kill();
      node.boot();
    }
  }
}
