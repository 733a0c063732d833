/**
 * Sim node: one node of the simulated cluster. It runs the production engine on its own clock and
 * with its own faults. It can be killed and booted again, with a new node id each time.
 */
import type { Random } from "@redrive/core";
import { Engine } from "../../faces/service/src/engine/engine.ts";
import type { StartedTask } from "../../faces/service/src/model/batch.ts";
import type { Store } from "../../faces/service/src/model/store.ts";
import { wrapped } from "../../faces/service/src/model/wrapped.ts";
import { RedriveJobs } from "../../faces/service/src/operations/redrive-jobs.ts";
import { createFollowUp } from "./callbacks.ts";
import { SERVICE_BUDGET } from "./checkers/all-checkers.ts";
import { redriveSource } from "./redrive-source.ts";
import { NodeClock } from "./sim-clock.ts";
import type { World } from "./world.ts";

/** A failed boot is retried after this delay. */
const REBOOT_MS = 500;

export class SimNode {
  readonly #world: World;
  readonly #random: Random;
  readonly #name: string;
  #boots = 0;
  #freezes = 0;
  #clock: NodeClock;
  #engine: Engine | undefined;
  #jobs: RedriveJobs | undefined;

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

  /** The redrive jobs, unless the node is dead, paused or still booting. */
  jobs(): RedriveJobs | undefined {
    return this.#clock.isFrozen() ? undefined : this.#jobs;
  }

  boot(): void {
    const world = this.#world;
    // A lock protects an exclusive store: a process that boots on it is the only one.
    if (world.store.exclusive) this.kill();
    const clock = new NodeClock(world.clock, world.mutant?.wallErrorMs);
    const nodeId = `${this.#name}-${++this.#boots}`;
    const random = this.#random.fork(nodeId);
    this.#clock = clock;
    const reboot = () => {
      if (!clock.isDead()) clock.alarm(REBOOT_MS, () => this.boot());
    };
    const die = () => {
      clock.kill();
      if (this.#clock !== clock) return;
      this.#engine = undefined;
      this.#jobs = undefined;
      world.clock.set(REBOOT_MS, () => this.#clock === clock && this.boot());
    };
    const store = silentWhenDead(world.storeOf(clock, random.fork("faults"), die), clock);
    let opened: Engine | undefined;
    const rowOf = ({ tenantId, destination }: StartedTask) =>
      opened?.destination(tenantId, destination).row;
    const deliver = world.deliverFrom(nodeId, clock, rowOf);
    const retryBudget = world.mutant?.retryBudget ?? SERVICE_BUDGET;
    const followUp = createFollowUp((now) => world.newId(now));
    Engine.open({
      clock,
      random,
      store,
      deliver,
      nodeId,
      retryBudget,
      followUp,
      onFatal: die,
    })
      .then(async (engine) => {
        opened = engine;
        await engine.start();
        const jobs = await this.#openJobs(engine, store, clock);
        if (clock.isDead()) return;
        this.#engine = engine;
        this.#jobs = jobs;
      })
      .catch(reboot);
  }

  async #openJobs(
    engine: Engine,
    store: Store,
    clock: NodeClock,
  ): Promise<RedriveJobs | undefined> {
    if (!this.#world.features.redrives) return undefined;
    const { exclusive, documents } = store;
    const source = redriveSource(engine, store, (now) => this.#world.newId(now));
    const jobs = new RedriveJobs({
      clock,
      documents,
      source,
      nodeId: engine.nodeId,
      exclusive,
    });
    await jobs.open();
    return jobs;
  }

  kill(): void {
    this.#clock.kill();
    this.#engine = undefined;
    this.#jobs = undefined;
  }

  /** Stops like a deployment: running attempts get `graceMs` to end, and the node boots at once. */
  stop(graceMs: number): void {
    const clock = this.#clock;
    const killAndBoot = () => {
      if (clock.isDead()) return;
      this.kill();
      this.boot();
    };
    const engine = this.#engine;
    if (engine === undefined) return;
    const isFirst = engine.isRunning();
    const faultsBefore = this.#world.faultCount();
    const freezesBefore = this.#freezes;
    const wasFrozen = clock.isFrozen();
    const stopped = () => {
      const isOnTime = !wasFrozen && this.#freezes === freezesBefore && !clock.isDead();
      const isWithoutFault = isOnTime && this.#world.faultCount() === faultsBefore;
      if (isFirst && isWithoutFault)
        this.#world.check((checker) => checker.nodeStopped?.(engine.nodeId));
      killAndBoot();
    };
    void this.#jobs?.stop();
    engine.stop(graceMs).then(stopped, killAndBoot);
  }

  isUp(): boolean {
    return this.#engine !== undefined;
  }

  freeze(ms: number): void {
    this.#freezes++;
    this.#clock.freeze(ms);
  }

  suspend(ms: number): void {
    this.#freezes++;
    this.#clock.suspend(ms);
  }
}

/** A dead node receives nothing and writes nothing. */
function silentWhenDead(store: Store, clock: NodeClock): Store {
  const unlessDead = <T>(work: () => Promise<T>): Promise<T> =>
    clock.isDead() ? new Promise(() => {}) : work();
  return wrapped(store, {
    commit: (batch) => unlessDead(() => store.commit(batch)),
    renew: (lease) => unlessDead(() => store.renew(lease)),
    documents: wrapped(store.documents, {
      put: (document) => unlessDead(() => store.documents.put(document)),
    }),
  });
}

/** Picks a random engine that is up. */
export function pickEngine(nodes: readonly SimNode[], random: Random): Engine | undefined {
  const up = nodes.map((node) => node.engine()).filter((engine) => engine !== undefined);
  return up[Math.floor(random.next() * up.length)];
}
