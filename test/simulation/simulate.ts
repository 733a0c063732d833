/**
 * Simulate: one seed from beginning to end. Three nodes of the production engine share a store that
 * fails, are killed, stopped and paused, and are held to every checker (safety); then the faults stop and
 * everything must come to its end in bounded time (liveness).
 */
import { seededRandom } from "@redrive/core";
import { isEnded } from "../../faces/service/src/task.ts";
import { Clients } from "./clients.ts";
import type { Coverage } from "./coverage.ts";
import type { Mutant } from "./mutants.ts";
import { SimNode } from "./sim-node.ts";
import { START_AT, World } from "./world.ts";

const NODES = 3;
const TASKS = 250;
const SAFETY_MS = 45_000;
/** The longest total budget, a lease, and some. */
const LIVENESS_MS = 240_000;
const FAULT_RATE = 0.1;

export interface SeedOptions {
  readonly coverage: Coverage;
  readonly mutant?: Mutant;
}

/** Throws the first violation, in whose message the seed and the command to replay it are. */
export async function simulateSeed(seed: number, { coverage, mutant }: SeedOptions): Promise<void> {
  const random = seededRandom(seed);
  const world = new World(random, FAULT_RATE, coverage, mutant);
  try {
    await runSeed(world, random.fork("plan"), coverage);
  } catch (error) {
    throw new Error(failureText(seed, error), { cause: error });
  }
}

function failureText(seed: number, error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const replay = `REDRIVE_SEED=${seed} npx vitest run test/simulation/replay.test.ts`;
  return `seed ${seed}: ${text}\n  replay with: ${replay}`;
}

async function runSeed(
  world: World,
  random: ReturnType<typeof seededRandom>,
  coverage: Coverage,
): Promise<void> {
  await world.prepare();
  const nodes = Array.from({ length: NODES }, (_, index) => {
    const name = `n${index}`;
    return new SimNode(world, random.fork(name), name);
  });
  for (const node of nodes) node.boot();
  const clients = new Clients(world, random.fork("clients"), nodes);
  const draw = (below: number) => Math.floor(random.next() * below);
  const tasks = TASKS + draw(40);
  clients.plan(tasks, SAFETY_MS - 5000);
  if (random.next() < 0.5) clients.pause(draw(20_000), 1000 + draw(8000));
  const crashes = planCrashes(world, nodes, draw);
  const pauses = planPauses(world, nodes, draw);
  const stops = planStops(world, nodes, draw);

  await world.clock.runUntil(START_AT + SAFETY_MS, () => world.violation !== undefined);
  heal(world, nodes);
  clients.resumeAll();
  let nextLook = 0;
  const isDone = () => {
    if (world.violation !== undefined) return true;
    if (world.clock.now() < nextLook) return false;
    nextLook = world.clock.now() + 1000;
    return world.truth.all().every(({ status }) => isEnded(status));
  };
  await world.clock.runUntil(START_AT + SAFETY_MS + LIVENESS_MS, isDone);
  world.check((checker) => checker.finished?.(world.truth));
  if (world.violation !== undefined) throw world.violation;
  const { totals } = coverage;
  totals.seeds++;
  totals.tasks += tasks;
  totals.crashes += crashes;
  totals.pauses += pauses;
  totals.stops += stops;
  totals.steps += world.clock.steps;
  coverage.addFaults(world.faults.counts);
}

/** At least five in every seed. */
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

/** Some outlast the lease: then others take over what the paused node still believes to run. */
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

/** Some give what runs no time at all. */
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

/** The faults stop, the targets are well, and every node is up. */
function heal(world: World, nodes: readonly SimNode[]): void {
  world.faults.rate = 0;
  world.targets.isHealed = true;
  for (const node of nodes) {
    node.freeze(0);
    if (!node.isUp()) {
      node.kill();
      node.boot();
    }
  }
}
