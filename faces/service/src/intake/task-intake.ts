/**
 * Task intake: turns the input of a caller into a stored task. It chooses the policy, checks the
 * input, seals secrets, and hands the task to the engine.
 */
import { assertKey, DocumentError, isObject, resolvePolicy } from "@redrive/core";
import type { Bodies, StoredBody } from "../bodies/bodies.ts";
import type { RefusedTarget, Target } from "../deliver/address-guard/target.ts";
import type { Engine } from "../engine/engine.ts";
import type { CreateResult } from "../model/batch.ts";
import { isDisabled } from "../model/delivery/delivery-settings.ts";
import { stopped } from "../model/errors.ts";
import { withPlainHeaders } from "../model/headers-input.ts";
import type { NewId } from "../model/ids.ts";
import { withHops } from "../model/loop-detection.ts";
import type { CallerTransaction, Store } from "../model/store.ts";
import { readDestination } from "../model/stored-documents.ts";
import type { NewTask } from "../model/task.ts";
import { asRequested, type DestinationPolicies } from "./destination-policies.ts";
import { type EnqueueOptions, readEnqueueOptions } from "./enqueue-options.ts";
import { fingerprintParts } from "./fingerprint.ts";
import { disabled, keyConflict, policyRemoved } from "./intake-errors.ts";
import type { Policies, PolicyChoice } from "./policies.ts";
import type { Secrets } from "./secrets.ts";
import { isRefusal, withStored } from "./stored-body.ts";
import { isBodySource } from "./task-body.ts";
import {
  checkInput,
  createTask,
  headersOf,
  type PlainTaskInput,
  type TaskInput,
} from "./task-input.ts";

export interface TaskIntakeParts {
  readonly engine: Engine;
  readonly store: Pick<Store, "createIn" | "exclusive" | "getDestination">;
  readonly policies: Policies;
  readonly destinationPolicies: DestinationPolicies;
  readonly newId: NewId;
  readonly secrets: Secrets;
  readonly bodies: Bodies;
  readonly checkTarget: (url: string) => Target | RefusedTarget;
}

/** How often a task chooses its policy, if each choice is removed before the task is stored. */
const MAX_TRIES = 5;

/** With a transaction of the caller, it becomes true when the caller commits. */
export interface Accepted {
  readonly taskId: string;
  /** The key existed; this is the task that it belongs to. */
  readonly replayed: boolean;
}

export class TaskIntake {
  readonly #parts: TaskIntakeParts;

  constructor(parts: TaskIntakeParts) {
    this.#parts = parts;
  }

  /**
   * Resolves once the task is durable, or is written in the transaction of the options. `hops`: the
   * Redrive services that it has passed through.
   */
  async enqueue(
    given: TaskInput,
    options: string | EnqueueOptions,
    hops: number,
  ): Promise<Accepted> {
    const { tenantId, tx } = readEnqueueOptions(options, this.#parts.store);
    const input = withPlainHeaders(given);
    const { bodies } = this.#parts;
    if (isObject(input) && isBodySource(input.body)) {
      await this.check(input, tenantId);
      const stored = await bodies.store(tenantId, input.body);
      return this.#enqueueOwn({ input: withStored(input, stored), tenantId, hops, tx }, stored);
    }
    if (isObject(input) && input.bodyRef !== undefined) {
      await this.check(input, tenantId);
      await bodies.assertExists(tenantId, input.bodyRef);
    }
    return this.#enqueue({ input, tenantId, hops, tx });
  }

  /** Like `enqueue`, with a body that was stored for this task and belongs to no other. */
  enqueueStored(
    given: TaskInput,
    stored: StoredBody,
    tenantId: string,
    hops: number,
  ): Promise<Accepted> {
    const input = withStored(withPlainHeaders(given), stored);
    return this.#enqueueOwn({ input, tenantId, hops, tx: undefined }, stored);
  }

  /** Throws what `enqueue` would throw for this input, before its body is stored. */
  async check(given: TaskInput, tenantId: string): Promise<void> {
    const input = withPlainHeaders(given);
    const choice = this.#knownPolicy(input, tenantId) ?? (await this.#policy(input, tenantId));
    const task = this.#newTask(input, tenantId, choice);
    this.#assertKey(task);
    await this.#assertEnabled(task);
  }

  /** Removes the body again if no task was created. If that is unknown, the collector finds out. */
  async #enqueueOwn(entry: Entry, { bodyRef }: StoredBody): Promise<Accepted> {
    const { bodies } = this.#parts;
    try {
      const accepted = await this.#enqueue(entry);
      if (accepted.replayed && bodyRef !== null) await bodies.discard(entry.tenantId, bodyRef);
      return accepted;
    } catch (error) {
      if (bodyRef !== null && isRefusal(error)) await bodies.discard(entry.tenantId, bodyRef);
      throw error;
    }
  }

  async #enqueue(entry: Entry): Promise<Accepted> {
    const { input, tenantId } = entry;
    for (let tries = 1; ; tries++) {
      const choice = this.#knownPolicy(input, tenantId) ?? (await this.#policy(input, tenantId));
      const task = this.#newTask(input, tenantId, choice);
      const check = this.#assertEnabled(task);
      if (check !== undefined) await check;
      this.#assertKey(task);
      if (task.body !== null && task.body.length > this.#parts.bodies.inlineBytes) {
        return this.#enqueueLarge(entry, task.body);
      }
      const accepted = await this.#store(entry, task);
      if (accepted !== null) return accepted;
      // The policy was removed after it was chosen: choose again.
      this.#parts.policies.forget(tenantId, choice.policyId);
      if (tries === MAX_TRIES) throw policyRemoved(choice.policyId);
    }
  }

  /** The body is stored first, and then the same task refers to it. */
  async #enqueueLarge(entry: Entry, bytes: Uint8Array): Promise<Accepted> {
    const { input, tenantId } = entry;
    const bodyRef = await this.#parts.bodies.storeLarge(tenantId, bytes);
    const stored = { body: null, bodyRef } as const;
    const headers = input.json === undefined ? input.headers : headersOf(input);
    const placed = withStored({ ...input, ...(headers && { headers }) }, stored);
    return this.#enqueueOwn({ ...entry, input: placed }, stored);
  }

  #assertKey(task: NewTask): void {
    const policy = this.#parts.engine.policies.get(task);
    if (policy?.requireIdempotencyKey && task.idempotencyKey === null) assertKey(policy, {});
  }

  /** Null: the policy was removed meanwhile. */
  async #store({ input, hops, tx }: Entry, task: NewTask): Promise<Accepted | null> {
    const { secrets } = this.#parts;
    const { idempotencyKey: key, taskId } = task;
    const fingerprint =
      key === null ? null : secrets.fingerprint(fingerprintParts(asRequested(input, task)));
    const sealed = secrets.seal(withHops(task, hops));
    const result = await (tx === undefined
      ? this.create(sealed, fingerprint)
      : this.#createIn(tx, sealed, fingerprint));
    switch (result.kind) {
      case "created":
        return { taskId, replayed: false };
      case "replayed":
        return { taskId: result.taskId, replayed: true };
      case "unknown-policy":
        return null;
      default:
        throw keyConflict(key);
    }
  }

  /**
   * Throws `TARGET_DISABLED` for a target that responded 410. A node of a fleet that has not used the
   * destination yet accepts the task, and its first claim ends it with the reason `target-gone`.
   */
  #assertEnabled({ tenantId, destination, targetUrl }: NewTask): Promise<void> | undefined {
    const { engine, store } = this.#parts;
    const known = engine.destinations.find(tenantId, destination);
    if (known !== undefined && isDisabled(known.delivery, targetUrl)) throw disabled(destination);
    if (known?.fleetState.isRowKnown || !store.exclusive) return undefined;
    return store.getDestination(tenantId, destination).then((row) => {
      const reading = readDestination(row?.document ?? null);
      if (reading.kind === "unreadable") return;
      if (isDisabled(reading.value.delivery, targetUrl)) throw disabled(destination);
    });
  }

  /** The policy, if it is known without a read of the store. */
  #knownPolicy(input: TaskInput, tenantId: string): PolicyChoice | undefined {
    const { policies, destinationPolicies } = this.#parts;
    if (!isObject(input) || input.policy !== undefined) return undefined;
    if (input.policyId !== undefined) return policies.known(tenantId, input.policyId);
    return destinationPolicies.known(tenantId, this.#destinationOf(input));
  }

  /** The destination of the task; empty for an invalid target, which is refused later. */
  #destinationOf({ destination, targetUrl }: TaskInput): string {
    if (destination !== undefined) return destination;
    const target = typeof targetUrl === "string" ? this.#parts.checkTarget(targetUrl) : undefined;
    return target?.ok ? target.origin : "";
  }

  /** Checks the input first, so that nothing is stored for an input that will be refused. */
  #policy(input: TaskInput, tenantId: string): Promise<PolicyChoice> {
    const { engine, policies, destinationPolicies } = this.#parts;
    const problems = checkInput(input, engine.now());
    if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
    const { policy, policyId } = input;
    if (policyId !== undefined) return policies.choose(tenantId, policyId);
    if (policy === undefined) {
      return destinationPolicies.choose(tenantId, this.#destinationOf(input));
    }
    resolvePolicy(policy);
    return policies.chooseInline(tenantId, policy);
  }

  #newTask(input: PlainTaskInput, tenantId: string, choice: PolicyChoice): NewTask {
    const { engine, newId, checkTarget } = this.#parts;
    const now = engine.now();
    const byte = engine.partitionByte(tenantId, input.idempotencyKey ?? null);
    return createTask(input, { tenantId, taskId: newId(now, byte), now, ...choice, checkTarget });
  }

  async #createIn(
    tx: CallerTransaction,
    task: NewTask,
    fingerprint: string | null,
  ): Promise<CreateResult> {
    const { engine, store } = this.#parts;
    if (!engine.isRunning() || store.createIn === undefined) throw stopped();
    return store.createIn(tx, { task, fingerprint });
  }

  create(task: NewTask, fingerprint: string | null): Promise<CreateResult> {
    return new Promise((resolve, reject) => {
      this.#parts.engine.create(task, fingerprint, resolve, reject);
    });
  }
}

/** An input to store, for whom and how. */
interface Entry {
  readonly input: PlainTaskInput;
  readonly tenantId: string;
  readonly hops: number;
  readonly tx: CallerTransaction | undefined;
}
