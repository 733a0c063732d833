/**
 * Clients: create tasks, cancel them, ask for an immediate retry and repeat requests. A client that
 * gets no result retries with the same key, at any node that is up.
 */
import type { Random } from "@redrive/core";
import type { Engine } from "../../faces/service/src/engine/engine.ts";
import { acknowledgedId } from "./acknowledged-id.ts";
import { cancelWithCallback } from "./callbacks.ts";
import { pickEngine, type SimNode } from "./sim-node.ts";
import { type SimTaskFields, simTask } from "./sim-task.ts";
import { POLICIES, TENANT, type World } from "./world.ts";

const POLICY_IDS = Object.keys(POLICIES).filter((policyId) => policyId !== "callback");

/** A client gives up after this many tries without a result. */
const MAX_TRIES = 40;

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
      this.#schedule(this.#draw(durationMs), () => {
        const id = `task-${String(++this.#lastId).padStart(6, "0")}`;
        this.#create(id, this.#newTask(), 0);
      });
    }
  }

  /** Schedules `count` tasks early, each at a destination of its own and due within `durationMs`. */
  planCrowd(count: number, durationMs: number): void {
    for (let n = 0; n < count; n++) {
      this.#schedule(this.#draw(5000), () => {
        const id = `crowd-${String(++this.#lastId).padStart(6, "0")}`;
        const now = this.#world.clock.now();
        const scheduledAt = now + 5000 + this.#draw(durationMs);
        const own = { destination: `crowd-${n}`, idempotencyKey: id, deadlineAt: null };
        const task = { ...this.#newTask(), ...own, policyId: "curve", callbackUrl: null };
        this.#create(id, { ...task, createdAt: now, scheduledAt }, 0);
      });
    }
  }

  #newTask(): SimTaskFields {
    const now = this.#world.clock.now();
    const scheduledAt = now + (this.#random.next() < 0.15 ? this.#draw(8000) : 0);
    return {
      tenantId: TENANT,
      idempotencyKey: this.#random.next() < 0.6 ? `key-${this.#lastId}` : null,
      destination: this.#world.destinationName(this.#random.next()),
      targetUrl: "https://example.com/",
      policyId: POLICY_IDS[this.#draw(POLICY_IDS.length)] ?? "curve",
      idempotent: this.#random.next() < 0.95,
      deadlineAt: this.#random.next() < 0.1 ? scheduledAt + 3000 + this.#draw(10_000) : null,
      createdAt: now,
      scheduledAt,
      callbackUrl: this.#callbackUrl(),
    };
  }

  /** Callbacks go to the same destinations as tasks, and share their guards. */
  #callbackUrl(): string | null {
    if (!this.#world.features.callbacks || this.#random.next() < 0.6) return null;
    return `https://${this.#world.destinationName(this.#random.next())}/`;
  }

  /** A new request gets a new id and keeps the key. */
  #create(id: string, task: SimTaskFields, tries: number): void {
    const retry = () => {
      if (task.idempotencyKey === null || tries >= MAX_TRIES) return;
      const nextId = `${id}.${tries + 1}`;
      this.#schedule(100 + this.#draw(900), () => this.#create(nextId, task, tries + 1));
    };
    const engine = this.#engine();
    if (engine === undefined) {
      retry();
      return;
    }
    const newTask = simTask(id, task, engine);
    engine.create(
      newTask,
      task.idempotencyKey === null ? null : "fingerprint",
      (result) => {
        const taskId = acknowledgedId(result, newTask.taskId);
        const stored = this.#world.rawStore.peek(TENANT, taskId);
        this.#world.check("createAcknowledged", taskId, stored, task.idempotencyKey, result);
        this.#planFollowUp(taskId, task, retry);
      },
      retry,
    );
  }

  /** Some clients cancel, ask for an immediate retry, or repeat an acknowledged request. */
  #planFollowUp(taskId: string, task: SimTaskFields, retry: () => void): void {
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
      this.#world.check("cancelAcknowledged", at, taskId, result);
    }, retry);
  }

  #retryNow(taskId: string): void {
    this.#engine()
      ?.retryNow({ tenantId: TENANT, taskId })
      .catch(() => {});
  }
}
