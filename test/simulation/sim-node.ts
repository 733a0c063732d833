/**
 * Sim node: one node of the simulated cluster. It runs the production engine on its own clock and
 * with its own faults. It can be killed and booted again, with a new node id each time.
 */
import type { Random } from "@redrive/core";
import { Engine } from "../../faces/service/src/engine/engine.ts";
import type { StartedTask } from "../../faces/service/src/model/batch.ts";
import type { Store } from "../../faces/service/src/model/store.ts";
import { wrapped } from "../../faces/service/src/model/wrapped.testing.ts";
import { RedriveJobs } from "../../faces/service/src/operations/redrive-jobs.ts";
import type { Cut } from "../../faces/service/src/stores/memory/faulty-store.testing.ts";
import { createFollowUp } from "./callbacks.ts";
import { SERVICE_BUDGET } from "./checkers/all-checkers.ts";
import { redriveSource } from "./redrive-source.ts";
import { type ClockErrors, EXACT, NodeClock } from "./sim-clock.ts";
import type { World } from "./world.ts";

/** A failed boot is retried after this delay. */
const REBOOT_MS = 500;

/** Of a machine whose clock is wrong. */
const MAX_SKEW_MS = 7_200_000;
const MAX_DRIFT = 0.0004;

/** Some tasks are removed before the seed ends. */
const RETENTION = { retentionMs: 20_000, deadLetterRetentionMs: 120_000 } as const;

export class SimNode {
  readonly #world: World;
  readonly #random: Random;
  readonly #name: string;
  #boots = 0;
  #freezes = 0;
  #clock: NodeClock;
  #cut: Cut = "requests";
  #cutUntil = 0;
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
    const clock = new NodeClock(world.clock, this.#clockErrors());
    const nodeId = `${this.#name}-${++this.#boots}`;
    const random = this.#random.fork(nodeId);
    this.#clock = clock;
    const die = () => {
      clock.kill();
      if (this.#clock !== clock) return;
      this.#engine = undefined;
      this.#jobs = undefined;
      world.clock.set(REBOOT_MS, () => this.#clock === clock && this.boot());
    };
    const cutOf = () => (world.clock.now() < this.#cutUntil ? this.#cut : undefined);
    const faulty = world.storeOf(clock, random.fork("faults"), die, cutOf);
    const store = silentWhenDead(faulty, clock);
    let opened: Engine | undefined;
    const rowOf = ({ tenantId, destination }: StartedTask) =>
      opened?.destination(tenantId, destination).row;
    const nowOf = () => opened?.now() ?? 0;
    const deliver = world.deliverFrom(nodeId, clock, rowOf, nowOf);
    const retryBudget = world.mutant?.retryBudget ?? SERVICE_BUDGET;
    const followUp = createFollowUp(world.newId);
    Engine.open({
      clock,
      random,
      store,
      deliver,
      nodeId,
      retryBudget,
      followUp,
      ...(world.features.retention && RETENTION),
      ...(world.features.overlap && { overlapItems: 1 }),
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
      .catch(die);
  }

  async #openJobs(
    engine: Engine,
    store: Store,
    clock: NodeClock,
  ): Promise<RedriveJobs | undefined> {
    if (!this.#world.features.redrives) return undefined;
    const { exclusive, documents } = store;
    const source = redriveSource(engine, store, this.#world.newId);
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
      if (isFirst && isWithoutFault) this.#world.check("nodeStopped", engine.nodeId);
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

  /** Cuts the node off from the store. */
  cutOff(ms: number, cut: Cut): void {
    this.#cut = cut;
    this.#cutUntil = this.#world.clock.now() + ms;
  }

  /** Somebody sets the wall clock of the machine. */
  stepClock(ms: number): void {
    this.#clock.step(ms);
  }

  /** A machine keeps its errors when a process on it boots again. */
  #clockErrors(): ClockErrors {
    const { features } = this.#world;
    // A single node has the wall clock only: nothing says how wrong it is.
    if (!features.clocks || features.isSingle) return EXACT;
    const random = this.#random.fork("clock");
    const skewMs = Math.floor((random.next() - 0.5) * 2 * MAX_SKEW_MS);
    const drift = (random.next() - 0.5) * 2 * MAX_DRIFT;
    return { skewMs, drift };
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
