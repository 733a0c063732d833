/**
 * Task intake: turns the input of a caller into a stored task. It chooses the policy, checks the
 * input, seals secrets, and hands the task to the engine.
 */
import { assertKey, DocumentError, isObject, resolvePolicy } from "@redrive/core";
import type { RefusedTarget, Target } from "../deliver/address-guard/target.ts";
import type { Engine } from "../engine/engine.ts";
import type { CreateResult } from "../model/batch.ts";
import { serviceError } from "../model/errors.ts";
import { withPlainHeaders } from "../model/headers-input.ts";
import type { NewId } from "../model/ids.ts";
import { withHops } from "../model/loop-detection.ts";
import type { NewTask } from "../model/task.ts";
import { asRequested, type DestinationPolicies } from "./destination-policies.ts";
import { fingerprintParts } from "./fingerprint.ts";
import type { Policies, PolicyChoice } from "./policies.ts";
import type { Secrets } from "./secrets.ts";
import { checkInput, createTask, type PlainTaskInput, type TaskInput } from "./task-input.ts";

export interface TaskIntakeParts {
  readonly engine: Engine;
  readonly policies: Policies;
  readonly destinationPolicies: DestinationPolicies;
  readonly newId: NewId;
  readonly secrets: Secrets;
  readonly checkTarget: (url: string) => Target | RefusedTarget;
}

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

  /** Resolves once the task is durable. `hops`: the Redrive services that it has passed through. */
  async enqueue(given: TaskInput, tenantId: string, hops: number): Promise<Accepted> {
    const input = withPlainHeaders(given);
    const { engine, policies, secrets } = this.#parts;
    const choice = this.#knownPolicy(input, tenantId) ?? (await this.#policy(input, tenantId));
    try {
      const task = this.#newTask(input, tenantId, choice);
      const policy = engine.policies.get(task);
      if (policy?.requireIdempotencyKey && task.idempotencyKey === null) assertKey(policy, {});
      const { idempotencyKey: key, taskId } = task;
      const fingerprint =
        key === null ? null : secrets.fingerprint(fingerprintParts(asRequested(input, task)));
      const result = await this.create(secrets.seal(withHops(task, hops)), fingerprint);
      if (result.kind === "created") return { taskId, replayed: false };
      if (result.kind === "replayed") return { taskId: result.taskId, replayed: true };
      throw keyConflict(key);
    } finally {
      policies.release(tenantId, choice.policyId);
    }
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
    return createTask(input, { tenantId, taskId: newId(now), now, ...choice, checkTarget });
  }

  create(task: NewTask, fingerprint: string | null): Promise<CreateResult> {
    return new Promise((resolve, reject) => {
      this.#parts.engine.create(task, fingerprint, resolve, reject);
    });
  }
}

function keyConflict(key: string | null): Error {
  const text = `key ${JSON.stringify(key)} was used with another payload`;
  return serviceError("IDEMPOTENCY_CONFLICT", text);
}
