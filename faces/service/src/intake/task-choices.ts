/**
 * Task choices: what is found out about a new task before it is stored: its policy, and whether its
 * target was disabled. What is in memory is used without a promise.
 */
import { DocumentError, isObject, resolvePolicy } from "@redrive/core";
import type { RefusedTarget, Target } from "../deliver/address-guard/target.ts";
import type { Engine } from "../engine/engine.ts";
import { isDisabled } from "../model/delivery/delivery-settings.ts";
import type { Store } from "../model/store.ts";
import { readDestination } from "../model/stored-documents.ts";
import type { NewTask } from "../model/task.ts";
import type { DestinationPolicies } from "./destination-policies.ts";
import { disabled } from "./intake-errors.ts";
import type { Policies, PolicyChoice } from "./policies.ts";
import { checkInput, type PlainTaskInput } from "./task-input.ts";

export interface TaskChoicesParts {
  readonly engine: Engine;
  readonly store: Pick<Store, "exclusive" | "getDestination">;
  readonly policies: Policies;
  readonly destinationPolicies: DestinationPolicies;
  readonly checkTarget: (url: string) => Target | RefusedTarget;
}

export class TaskChoices {
  readonly #parts: TaskChoicesParts;

  constructor(parts: TaskChoicesParts) {
    this.#parts = parts;
  }

  /**
   * Is it known that the target was not disabled? Throws `TARGET_DISABLED` for a target that responded
   * 410. A node of a fleet that has not used the destination yet accepts the task, and its first claim
   * ends it with the reason `target-gone`.
   */
  isKnownEnabled({ tenantId, destination, targetUrl }: NewTask): boolean {
    const { engine, store } = this.#parts;
    const known = engine.destinations.find(tenantId, destination);
    if (known !== undefined && isDisabled(known.delivery, targetUrl)) throw disabled(destination);
    return known?.fleetState.isRowKnown === true || !store.exclusive;
  }

  /** Reads the row of the destination. */
  async assertEnabled({ tenantId, destination, targetUrl }: NewTask): Promise<void> {
    const row = await this.#parts.store.getDestination(tenantId, destination);
    const reading = readDestination(row?.document ?? null);
    if (reading.kind === "unreadable") return;
    if (isDisabled(reading.value.delivery, targetUrl)) throw disabled(destination);
  }

  /** The policy, if it is known without a read of the store. */
  known(input: PlainTaskInput, tenantId: string): PolicyChoice | undefined {
    const { policies, destinationPolicies } = this.#parts;
    if (!isObject(input) || input.policy !== undefined) return undefined;
    if (input.policyId !== undefined) return policies.known(tenantId, input.policyId);
    return destinationPolicies.known(tenantId, this.#destinationOf(input));
  }

  /** Checks the input first, so that nothing is stored for an input that will be refused. */
  choose(input: PlainTaskInput, tenantId: string): Promise<PolicyChoice> {
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

  /** The destination of the task; empty for an invalid target, which is refused later. */
  #destinationOf({ destination, targetUrl }: PlainTaskInput): string {
    if (destination !== undefined) return destination;
    const target = typeof targetUrl === "string" ? this.#parts.checkTarget(targetUrl) : undefined;
    return target?.ok ? target.origin : "";
  }
}
