/**
 * Sim node: one node of the cluster: the production engine on its own clock, behind its own faults.
 * It can be killed and booted again, under a new name each time.
 */
import type { Random } from "@redrive/core";
import { Engine } from "../../faces/service/src/engine/engine.ts";
import type { Store } from "../../faces/service/src/store.ts";
import { faultyStore } from "../../faces/service/src/stores/memory/faulty-store.testing.ts";
import { WHOLE_BUDGET } from "./checkers/all-checkers.ts";
import { NodeClock } from "./sim-clock.ts";
import type { World } from "./world.ts";

/** A boot that failed is tried again after this. */
const REBOOT_MS = 500;

export class SimNode {
  readonly #world: World;
  readonly #random: Random;
  readonly #name: string;
  #boots = 0;
  #clock: NodeClock;
  #engine: Engine | undefined;

  constructor(world: World, random: Random, name: string) {
    this.#world = world;
    this.#random = random;
    this.#name = name;
    this.#clock = new NodeClock(world.clock);
  }

  /** The engine, unless it is dead, paused or still booting. */
  engine(): Engine | undefined {
    return this.#clock.isFrozen() ? undefined : this.#engine;
  }

  boot(): void {
    const clock = new NodeClock(this.#world.clock);
    const nodeId = `${this.#name}-${++this.#boots}`;
    const random = this.#random.fork(nodeId);
    const { store: shared, faults } = this.#world;
    const faulty = faultyStore(shared, clock, random.fork("faults"), faults);
    const store = silentWhenDead(faulty, clock);
    const deliver = this.#world.deliverFrom(nodeId, clock);
    this.#clock = clock;
    const retry = () => {
      if (!clock.isDead()) clock.alarm(REBOOT_MS, () => this.boot());
    };
    const retryBudget = this.#world.mutant?.retryBudget ?? WHOLE_BUDGET;
    Engine.open({ clock, random, store, deliver, nodeId, retryBudget })
      .then(async (engine) => {
        await engine.start();
        if (!clock.isDead()) this.#engine = engine;
      })
      .catch(retry);
  }

  kill(): void {
    this.#clock.kill();
    this.#engine = undefined;
  }

  /** As a deployment would: what runs may end for that long, and the next boot follows at once. */
  stop(graceMs: number): void {
    const clock = this.#clock;
    const goneBy = () => {
      if (clock.isDead()) return;
      this.kill();
      this.boot();
    };
    this.#engine?.stop(graceMs).then(goneBy, goneBy);
  }

  isUp(): boolean {
    return this.#engine !== undefined;
  }

  freeze(ms: number): void {
    this.#clock.freeze(ms);
  }
}

/** A dead node hears nothing any more. */
function silentWhenDead(store: Store, clock: NodeClock): Store {
  return {
    ...store,
    commit: (batch) => (clock.isDead() ? new Promise(() => {}) : store.commit(batch)),
  };
}
