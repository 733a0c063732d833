/**
 * Destination policies: which policy a task gets that names none: the one of its destination's
 * document, otherwise the default. The task is pinned to its version like any other.
 */
import type { DestinationDocument } from "@redrive/core";
import { BoundedCache } from "../collections/bounded-cache.ts";
import type { Store } from "../model/store.ts";
import type { NewTask } from "../model/task.ts";
import type { Policies, PolicyChoice } from "./policies.ts";
import type { TaskInput } from "./task-input.ts";

export const DEFAULT_POLICY = "background";

/** More destinations than this are read again; in SQLite that costs no more than a look. */
const MAX_DESTINATIONS = 10_000;

export class DestinationPolicies {
  readonly #store: Store;
  readonly #policies: Policies;
  /** The policy's name, as far as this process knows; nothing where others may write too. */
  readonly #cached = new BoundedCache<string>(MAX_DESTINATIONS);
  #changes = 0;

  constructor(store: Store, policies: Policies) {
    this.#store = store;
    this.#policies = policies;
  }

  /** What a task is pinned to, if that is known without asking the store. */
  known(tenantId: string, destination: string): PolicyChoice | undefined {
    const policyId = this.#cached.get(keyOf(tenantId, destination));
    return policyId === undefined ? undefined : this.#policies.known(tenantId, policyId);
  }

  async choose(tenantId: string, destination: string): Promise<PolicyChoice> {
    const changes = this.#changes;
    const row = await this.#store.getDestination(tenantId, destination);
    const document = row?.document ? (JSON.parse(row.document) as DestinationDocument) : {};
    const { policy = DEFAULT_POLICY } = document;
    const choice =
      typeof policy === "string"
        ? await this.#policies.choose(tenantId, policy)
        : await this.#policies.chooseInline(tenantId, policy);
    // What was read before a change is not kept past it.
    const isFresh = this.#store.exclusive && changes === this.#changes;
    if (isFresh) this.#cached.set(keyOf(tenantId, destination), choice.policyId);
    return choice;
  }

  /** The destination's document has changed. */
  forget(tenantId: string, destination: string): void {
    this.#changes++;
    this.#cached.delete(keyOf(tenantId, destination));
  }
}

/** What a key stands for is what was asked: a destination's policy may change between two askings. */
export function asRequested({ policyId, policy }: TaskInput, task: NewTask): NewTask {
  const isAsked = policyId !== undefined || policy !== undefined;
  return isAsked || task.policyId === DEFAULT_POLICY ? task : { ...task, policyId: DEFAULT_POLICY };
}

function keyOf(tenantId: string, destination: string): string {
  return `${tenantId}\n${destination}`;
}
