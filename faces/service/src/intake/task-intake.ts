/**
 * Task intake: turns the input of a caller into a stored task. It chooses the policy, checks the
 * input, seals secrets, and hands the task to the engine.
 */
import { assertKey, isObject } from "@redrive/core";
import type { Bodies, StoredBody } from "../bodies/bodies.ts";
import type { CreateResult } from "../model/batch.ts";
import { stopped } from "../model/errors.ts";
import { withPlainHeaders } from "../model/headers-input.ts";
import type { NewId } from "../model/ids.ts";
import { withHops } from "../model/loop-detection.ts";
import type { CallerTransaction, Store } from "../model/store.ts";
import type { NewTask } from "../model/task.ts";
import { asRequested } from "./destination-policies.ts";
import { type EnqueueOptions, readEnqueueOptions } from "./enqueue-options.ts";
import { fingerprintParts } from "./fingerprint.ts";
import { keyConflict, policyRemoved } from "./intake-errors.ts";
import type { PolicyChoice } from "./policies.ts";
import type { Secrets } from "./secrets.ts";
import { isRefusal, withStored } from "./stored-body.ts";
import { isBodySource } from "./task-body.ts";
import { TaskChoices, type TaskChoicesParts } from "./task-choices.ts";
import { createTask, headersOf, type PlainTaskInput, type TaskInput } from "./task-input.ts";

export interface TaskIntakeParts extends TaskChoicesParts {
  readonly store: Pick<Store, "createIn" | "exclusive" | "getDestination">;
  readonly newId: NewId;
  readonly secrets: Secrets;
  readonly bodies: Bodies;
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
  readonly #choices: TaskChoices;

  constructor(parts: TaskIntakeParts) {
    this.#parts = parts;
    this.#choices = new TaskChoices(parts);
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
    const choice =
      this.#choices.known(input, tenantId) ?? (await this.#choices.choose(input, tenantId));
    const task = this.#newTask(input, tenantId, choice);
    this.#assertKey(task);
    if (!this.#choices.isKnownEnabled(task)) await this.#choices.assertEnabled(task);
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

  /**
   * Stores a usual task without a promise: its body is in the input, and its policy and its destination
   * are known. Returns false, without having done anything, for any other input; `enqueue` takes those.
   * Throws what `enqueue` rejects with. Calls `done` or `failed` once it is known, never before it returns.
   */
  enqueueKnown(
    given: TaskInput,
    tenantId: string,
    hops: number,
    done: (accepted: Accepted) => void,
    failed: (error: unknown) => void,
  ): boolean {
    const input = withPlainHeaders(given);
    if (!isObject(input) || isBodySource(input.body) || input.bodyRef !== undefined) return false;
    const choice = this.#choices.known(input, tenantId);
    if (choice === undefined) return false;
    const task = this.#newTask(input, tenantId, choice);
    if (!this.#choices.isKnownEnabled(task) || !this.#fitsInline(task)) return false;
    this.#assertKey(task);
    const entry: Entry = { input, tenantId, hops, tx: undefined };
    const stored = (accepted: Accepted | null) => {
      if (accepted !== null) done(accepted);
      else this.#enqueueAgain(entry, choice).then(done, failed);
    };
    this.#store(entry, task, stored, failed);
    return true;
  }

  /** The policy was removed after it was chosen. */
  #enqueueAgain(entry: Entry, { policyId }: PolicyChoice): Promise<Accepted> {
    this.#parts.policies.forget(entry.tenantId, policyId);
    return this.#enqueue(entry);
  }

  #fitsInline({ body }: NewTask): boolean {
    return body === null || body.length <= this.#parts.bodies.inlineBytes;
  }

  async #enqueue(entry: Entry): Promise<Accepted> {
    const { input, tenantId } = entry;
    for (let tries = 1; ; tries++) {
      const choice =
        this.#choices.known(input, tenantId) ?? (await this.#choices.choose(input, tenantId));
      const task = this.#newTask(input, tenantId, choice);
      if (!this.#choices.isKnownEnabled(task)) await this.#choices.assertEnabled(task);
      this.#assertKey(task);
      if (task.body !== null && !this.#fitsInline(task)) {
        return this.#enqueueLarge(entry, task.body);
      }
      const accepted = await new Promise<Accepted | null>((resolve, reject) => {
        this.#store(entry, task, resolve, reject);
      });
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

  /** Calls `done` with null if the policy was removed meanwhile. */
  #store(
    { input, hops, tx }: Entry,
    task: NewTask,
    done: (accepted: Accepted | null) => void,
    failed: (error: unknown) => void,
  ): void {
    const { secrets, engine } = this.#parts;
    const { idempotencyKey: key, taskId } = task;
    const fingerprint =
      key === null ? null : secrets.fingerprint(fingerprintParts(asRequested(input, task)));
    const sealed = secrets.seal(withHops(task, hops));
    const report = (result: CreateResult) => {
      switch (result.kind) {
        case "created":
          done({ taskId, replayed: false });
          return;
        case "replayed":
          done({ taskId: result.taskId, replayed: true });
          return;
        case "unknown-policy":
          done(null);
          return;
        default:
          failed(keyConflict(key));
      }
    };
    if (tx === undefined) engine.create(sealed, fingerprint, report, failed);
    else this.#createIn(tx, sealed, fingerprint).then(report, failed);
  }

  #newTask(input: PlainTaskInput, tenantId: string, choice: PolicyChoice): NewTask {
    const { engine, newId, checkTarget } = this.#parts;
    const now = engine.now();
    const byte = engine.partitionByte(tenantId, input.idempotencyKey ?? null);
    const { policyId, policyVersion } = choice;
    const taskId = newId(now, byte);
    return createTask(input, { tenantId, taskId, now, policyId, policyVersion, checkTarget });
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
