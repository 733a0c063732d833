/**
 * Clients: create tasks, cancel them, ask for an immediate retry and repeat requests. A client that
 * gets no result retries with the same key, at any node that is up.
 */
import type { Random } from "@redrive/core";
import type { Engine } from "../../faces/service/src/engine/engine.ts";
import type { NewTask } from "../../faces/service/src/model/task.ts";
import { cancelWithCallback } from "./callbacks.ts";
import { pickEngine, type SimNode } from "./sim-node.ts";
import { POLICIES, TENANT, type World } from "./world.ts";

const POLICY_IDS = Object.keys(POLICIES).filter((policyId) => policyId !== "callback");

/** A client gives up after this many tries without a result. */
const MAX_TRIES = 40;

/** Where an id has its partition. */
const PARTITION_AT = 21;

export class Clients {
  readonly #world: World;
  readonly #random: Random;
  readonly #nodes: readonly SimNode[];
  #lastId = 0;

  constructor(world: World, random: Random, nodes: readonly SimNode[]) {
    this.#world = world;
    this.#random = random;
    this.#nodes = nodes;
  }

  #draw(below: number): number {
    return Math.floor(this.#random.next() * below);
  }

  #engine(): Engine | undefined {
    return pickEngine(this.#nodes, this.#random);
  }

  #schedule(ms: number, fn: () => void): void {
    this.#world.clock.set(ms, fn);
  }

  /** Schedules `count` tasks over `durationMs`, with what their clients do to them later. */
  plan(count: number, durationMs: number): void {
    for (let n = 0; n < count; n++) {
      this.#schedule(this.#draw(durationMs), () => this.#create(this.#newTask(), 0));
    }
  }

  #newTask(): NewTask {
    const number = ++this.#lastId;
    const now = this.#world.clock.now();
    const scheduledAt = now + (this.#random.next() < 0.15 ? this.#draw(8000) : 0);
    return {
      taskId: `task-${String(number).padStart(6, "0")}`,
      tenantId: TENANT,
      idempotencyKey: this.#random.next() < 0.6 ? `key-${number}` : null,
      destination: this.#world.destinationName(this.#random.next()),
      targetUrl: "https://example.com/",
      method: "POST",
      headers: {},
      body: null,
      bodyRef: null,
      policyId: POLICY_IDS[this.#draw(POLICY_IDS.length)] ?? "curve",
      policyVersion: 1,
      idempotent: this.#random.next() < 0.95,
      deadlineAt: this.#random.next() < 0.1 ? scheduledAt + 3000 + this.#draw(10_000) : null,
      createdAt: now,
      scheduledAt,
      labels: {},
      callbackUrl: this.#callbackUrl(),
      redrivenFrom: null,
    };
  }

  /** Callbacks go to the same destinations as tasks, and share their guards. */
  #callbackUrl(): string | null {
    if (!this.#world.features.callbacks || this.#random.next() < 0.6) return null;
    return `https://${this.#world.destinationName(this.#random.next())}/`;
  }

  #create(task: NewTask, tries: number): void {
    const retry = () => {
      if (task.idempotencyKey === null || tries >= MAX_TRIES) return;
      // A new request gets a new id and keeps the key.
      const taskId = `${task.taskId}.${tries + 1}`;
      this.#schedule(100 + this.#draw(900), () => this.#create({ ...task, taskId }, tries + 1));
    };
    const engine = this.#engine();
    if (engine === undefined) {
      retry();
      return;
    }
    const newTask = withPartition(task, engine);
    engine.create(
      newTask,
      task.idempotencyKey === null ? null : "fingerprint",
      (result) => {
        const taskId = result.kind === "replayed" ? result.taskId : newTask.taskId;
        const stored = this.#world.rawStore.peek(TENANT, taskId);
        const at = this.#world.clock.now();
        this.#world.check("createAcknowledged", (one) =>
          one.createAcknowledged?.(at, stored, task.idempotencyKey, result),
        );
        this.#planFollowUp(taskId, task, retry);
      },
      retry,
    );
  }

  /** Some clients cancel, ask for an immediate retry, or repeat an acknowledged request. */
  #planFollowUp(taskId: string, task: NewTask, retry: () => void): void {
    const draw = this.#random.next();
    if (draw < 0.12) this.#schedule(this.#draw(6000), () => this.#cancel(taskId, 0));
    else if (draw < 0.18) this.#schedule(this.#draw(4000), () => this.#retryNow(taskId));
    else if (draw < 0.24 && task.idempotencyKey !== null) this.#schedule(this.#draw(5000), retry);
  }

  #cancel(taskId: string, tries: number): void {
    const retry = () => {
      if (tries < MAX_TRIES) this.#schedule(500, () => this.#cancel(taskId, tries + 1));
    };
    const engine = this.#engine();
    if (engine === undefined) {
      retry();
      return;
    }
    const task = this.#world.rawStore.peek(TENANT, taskId);
    const now = this.#world.clock.now();
    const ref = task && cancelWithCallback(task, now, this.#world.newId);
    engine.cancel(ref ?? { tenantId: TENANT, taskId }).then((result) => {
      const at = this.#world.clock.now();
      this.#world.check("cancelAcknowledged", (checker) =>
        checker.cancelAcknowledged?.(at, taskId, result),
      );
    }, retry);
  }

  #retryNow(taskId: string): void {
    this.#engine()
      ?.retryNow({ tenantId: TENANT, taskId })
      .catch(() => {});
  }
}

/** The task with the partition that the node chooses, where an id has it. */
export function withPartition(task: NewTask, engine: Engine): NewTask {
  const byte = engine.partitionByte(task.tenantId, task.idempotencyKey) ?? 0;
  const partition = byte.toString(16).padStart(2, "0");
  return { ...task, taskId: task.taskId.padEnd(PARTITION_AT, "-") + partition };
}
