/**
 * Tenants: a tenant with many tasks at many destinations, all due at once, and a tenant with a few
 * tasks that are due shortly after. Their destinations are healthy.
 */
import type { Random } from "@redrive/core";
import type { CreateResult } from "../../faces/service/src/model/batch.ts";
import { acknowledgedId } from "./acknowledged-id.ts";
import { pickEngine, type SimNode } from "./sim-node.ts";
import { simTask } from "./sim-task.ts";
import { BUSY_TENANT, PROMPT_TENANT, QUIET_TENANT, type World } from "./world.ts";

/** More destinations than one commit claims from. */
const BUSY_DESTINATIONS = 90;
const BUSY_TASKS = 180;
const QUIET_TASKS = 12;
/** After the faults have stopped. */
const PROMPT_TASKS = 10;

/** Tasks are created this long before they are due. */
const AHEAD_MS = 3000;

export class Tenants {
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

  /** Plans a backlog that is due at `dueMs`. */
  plan(dueMs: number): void {
    for (let n = 0; n < BUSY_TASKS; n++) {
      this.#create(BUSY_TENANT, `busy-${n % BUSY_DESTINATIONS}`, dueMs);
    }
    for (let n = 0; n < QUIET_TASKS; n++) {
      this.#create(QUIET_TENANT, `quiet-${n}`, dueMs + this.#draw(200));
    }
  }

  /** Plans tasks at destinations of their own, each due some time after `afterMs`. */
  planPrompt(afterMs: number): void {
    for (let n = 0; n < PROMPT_TASKS; n++) {
      const dueMs = afterMs + this.#draw(5000);
      this.#create(PROMPT_TENANT, `prompt-${n}`, dueMs);
    }
  }

  #create(tenantId: string, destination: string, dueMs: number): void {
    const { clock } = this.#world;
    const scheduledAt = clock.now() + dueMs;
    const id = `${tenantId}-${String(++this.#lastId).padStart(6, "0")}`;
    clock.set(dueMs - AHEAD_MS + this.#draw(AHEAD_MS - 500), () => {
      const engine = pickEngine(this.#nodes, this.#random);
      if (engine === undefined) return;
      // A key decides the partition of a task, so another node may have to send it.
      const idempotencyKey = tenantId === PROMPT_TENANT ? id : null;
      const fields = {
        tenantId,
        idempotencyKey,
        destination,
        // An origin of its own: lanes that share a full origin wait for each other, not for their turn.
        targetUrl: `https://${tenantId}.example.com/`,
        policyId: "curve",
        idempotent: true,
        deadlineAt: null,
        createdAt: clock.now(),
        scheduledAt,
        callbackUrl: null,
      };
      const task = simTask(id, fields, engine);
      const done = (result: CreateResult) => {
        const taskId = acknowledgedId(result, task.taskId);
        const stored = this.#world.rawStore.peek(tenantId, taskId);
        this.#world.check("createAcknowledged", taskId, stored, null, result);
      };
      const fingerprint = idempotencyKey === null ? null : "fingerprint";
      engine.create(task, fingerprint, done, () => {});
    });
  }
}
