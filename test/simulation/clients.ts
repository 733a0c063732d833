/**
 * Clients: submit tasks, cancel them, retry them now, and repeat requests. A client that gets no
 * result repeats its request with the same key, at any node that is up.
 */
import type { Random } from "@redrive/core";
import type { Engine } from "../../faces/service/src/engine/engine.ts";
import type { NewTask } from "../../faces/service/src/model/task.ts";
import { cancelRequestOf } from "./callbacks.ts";
import { engineUp, type SimNode } from "./sim-node.ts";
import { POLICIES, TENANT, type World } from "./world.ts";

const POLICY_IDS = Object.keys(POLICIES).filter((policyId) => policyId !== "callback");

/** A client gives up after this many requests without a result. */
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
    return engineUp(this.#nodes, this.#random);
  }

  #later(ms: number, fn: () => void): void {
    this.#world.clock.set(ms, fn);
  }

  /** Plans `count` tasks over the duration, each with the actions of its client. */
  plan(count: number, durationMs: number): void {
    for (let n = 0; n < count; n++) {
      this.#later(this.#draw(durationMs), () => this.#submit(this.#newTask(), 0));
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

  /** At one of the destinations of the tasks, so that they share its guards. */
  #callbackUrl(): string | null {
    if (!this.#world.kinds.callbacks || this.#random.next() < 0.6) return null;
    return `https://${this.#world.destinationName(this.#random.next())}/`;
  }

  #submit(task: NewTask, tries: number): void {
    const retry = () => {
      if (task.idempotencyKey === null || tries >= MAX_TRIES) return;
      // The same key, with the new id of a new request.
      const taskId = `${task.taskId}.${tries + 1}`;
      this.#later(100 + this.#draw(900), () => this.#submit({ ...task, taskId }, tries + 1));
    };
    const engine = this.#engine();
    if (engine === undefined) {
      retry();
      return;
    }
    engine.create(
      task,
      task.idempotencyKey === null ? null : "fingerprint",
      (result) => {
        const taskId = result.kind === "replayed" ? result.taskId : task.taskId;
        const stored = this.#world.truth.peek(TENANT, taskId);
        const at = this.#world.clock.now();
        this.#world.check((one) => one.created?.(at, stored, task.idempotencyKey, result));
        this.#interfere(taskId, task, retry);
      },
      retry,
    );
  }

  /** Further actions of clients: cancel, retry now, and repeat a confirmed request. */
  #interfere(taskId: string, task: NewTask, retry: () => void): void {
    const draw = this.#random.next();
    if (draw < 0.12) this.#later(this.#draw(6000), () => this.#cancel(taskId, 0));
    else if (draw < 0.18) this.#later(this.#draw(4000), () => this.#retryNow(taskId));
    else if (draw < 0.24 && task.idempotencyKey !== null) this.#later(this.#draw(5000), retry);
  }

  #cancel(taskId: string, tries: number): void {
    const retry = () => {
      if (tries < MAX_TRIES) this.#later(500, () => this.#cancel(taskId, tries + 1));
    };
    const engine = this.#engine();
    if (engine === undefined) {
      retry();
      return;
    }
    const task = this.#world.truth.peek(TENANT, taskId);
    const now = this.#world.clock.now();
    const request = task && cancelRequestOf(task, now, this.#world.newId);
    engine.cancel(request ?? { tenantId: TENANT, taskId }).then((result) => {
      const at = this.#world.clock.now();
      this.#world.check((checker) => checker.cancelled?.(at, taskId, result));
    }, retry);
  }

  #retryNow(taskId: string): void {
    this.#engine()
      ?.retryNow({ tenantId: TENANT, taskId })
      .catch(() => {});
  }
}
