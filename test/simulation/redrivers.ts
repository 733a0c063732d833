/**
 * Redrivers: turn dead letters into new tasks. Clients redrive single tasks and race each other.
 * Redrive jobs of the service redrive sets, and survive the node that runs them.
 */
import type { Random } from "@redrive/core";
import type { CreateResult } from "../../faces/service/src/model/batch.ts";
import { partitionByteOf } from "../../faces/service/src/model/partition.ts";
import type { RetryTask } from "../../faces/service/src/model/task.ts";
import { redrivenTask } from "../../faces/service/src/operations/dead-letter-redriver.ts";
import { acknowledgedId } from "./acknowledged-id.ts";
import { pickEngine, type SimNode } from "./sim-node.ts";
import { TENANT, type World } from "./world.ts";

export class Redrivers {
  readonly #world: World;
  readonly #random: Random;
  readonly #nodes: readonly SimNode[];

  constructor(world: World, random: Random, nodes: readonly SimNode[]) {
    this.#world = world;
    this.#random = random;
    this.#nodes = nodes;
  }

  #draw(below: number): number {
    return Math.floor(this.#random.next() * below);
  }

  /** Redrives some of the dead letters that exist at that instant, often twice at once. */
  planRedrives(atMs: number): void {
    this.#world.clock.set(atMs, () => {
      const dead = this.#world.rawStore
        .all()
        .filter(({ status, tenantId }) => status === "EXHAUSTED" && tenantId === TENANT);
      for (let n = Math.min(dead.length, 4); n > 0; n--) {
        const source = dead[this.#draw(dead.length)] as RetryTask;
        for (let times = 1 + this.#draw(2); times > 0; times--) {
          this.#world.clock.set(this.#draw(3), () => this.#redrive(source));
        }
      }
    });
  }

  /** `source` is an earlier read: another client may have redriven the task since. */
  #redrive(source: RetryTask): void {
    const engine = pickEngine(this.#nodes, this.#random);
    if (engine === undefined) return;
    const now = this.#world.clock.now();
    const id = this.#world.newId(now, partitionByteOf(source.taskId));
    const redriven = redrivenTask(source, undefined, id, now);
    const onResult = (result: CreateResult) => {
      if (result.kind === "unknown-policy") return;
      const taskId = acknowledgedId(result, redriven.taskId);
      const stored = this.#world.rawStore.peek(TENANT, taskId);
      this.#world.check("createAcknowledged", taskId, stored, null, result);
    };
    engine.create(redriven, null, onResult, () => {});
  }

  /** Starts a job at some node. A client that gets no result does not retry. */
  planJob(atMs: number): void {
    this.#world.clock.set(atMs, () => {
      const up = this.#nodes.map((node) => node.jobs()).filter((jobs) => jobs !== undefined);
      const jobs = up[this.#draw(up.length)];
      const order = { tenantId: TENANT, filter: {}, ratePerSecond: 5 + this.#draw(50) };
      const canary = this.#draw(2) * this.#draw(4);
      jobs?.start({ ...order, canary }).catch(() => {});
    });
  }
}
