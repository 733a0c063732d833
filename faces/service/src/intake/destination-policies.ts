/**
 * Destination policies: choose the policy of a task that names none: the policy in its
 * destination's document, otherwise the default. The task is pinned to a version like any other.
 */
import type { DestinationDocument, PolicyDocument } from "@redrive/core";
import { BoundedCache } from "../collections/bounded-cache.ts";
import type { Store } from "../model/store.ts";
import { parseStored, readDestination } from "../model/stored-documents.ts";
import type { NewTask } from "../model/task.ts";
import { isFresh, type ReadValue } from "./fresh.ts";
import type { Policies, PolicyChoice } from "./policies.ts";
import { SharedReads } from "./shared-reads.ts";
import type { TaskInput } from "./task-input.ts";

export const DEFAULT_POLICY = "background";

interface KnownPolicy extends ReadValue {
  readonly policyId: string;
}

/** Beyond this number, destinations are read again; in SQLite that is only a map lookup. */
const MAX_DESTINATIONS = 10_000;

export class DestinationPolicies {
  readonly #store: Store;
  readonly #policies: Policies;
  readonly #now: () => number;
  /** The policy id of each destination. In a shared store, other nodes may change its document. */
  readonly #cached = new BoundedCache<KnownPolicy>(MAX_DESTINATIONS);
  readonly #reads = new SharedReads<PolicyChoice>();
  #changes = 0;

  constructor(store: Store, policies: Policies, now: () => number) {
    this.#store = store;
    this.#policies = policies;
    this.#now = now;
  }

  /** The policy to pin a task to, if it is known without reading the store. */
  known(tenantId: string, destination: string): PolicyChoice | undefined {
    const known = this.#cached.get(keyOf(tenantId, destination));
    if (known === undefined) return undefined;
    return isFresh(known, this.#store, this.#now())
      ? this.#policies.known(tenantId, known.policyId)
      : undefined;
  }

  choose(tenantId: string, destination: string): Promise<PolicyChoice> {
    const read = () => this.#read(tenantId, destination);
    return this.#reads.share(keyOf(tenantId, destination), read);
  }

  async #read(tenantId: string, destination: string): Promise<PolicyChoice> {
    const changes = this.#changes;
    const row = await this.#store.getDestination(tenantId, destination);
    const policy = policyOf(row?.document ?? null);
    const choice =
      typeof policy === "string"
        ? await this.#policies.choose(tenantId, policy)
        : await this.#policies.chooseInline(tenantId, policy);
    // A value that was read before a change must not be cached after it.
    if (changes === this.#changes) {
      const known = { policyId: choice.policyId, readAt: this.#now() };
      this.#cached.set(keyOf(tenantId, destination), known);
    }
    return choice;
  }

  /** Call when the destination's document has changed. */
  forget(tenantId: string, destination: string): void {
    this.#changes++;
    this.#cached.delete(keyOf(tenantId, destination));
  }
}

/**
 * An idempotency key stands for the request as sent: the destination's policy may change between
 * two identical requests.
 */
export function asRequested({ policyId, policy }: TaskInput, task: NewTask): NewTask {
  const isAsked = policyId !== undefined || policy !== undefined;
  return isAsked || task.policyId === DEFAULT_POLICY ? task : { ...task, policyId: DEFAULT_POLICY };
}

/** While the document cannot be read, its tasks are held, and new ones get the default policy. */
function policyOf(text: string | null): string | PolicyDocument {
  const reading = readDestination(text);
  if (text === null || reading.kind === "unreadable") return DEFAULT_POLICY;
  const { policy = DEFAULT_POLICY } = parseStored(text) as DestinationDocument;
  // An inline policy may have unknown fields, which must not be stored again.
  if (typeof policy === "string" || reading.ignored.length === 0) return policy;
  return parseStored(JSON.stringify(reading.value.policy)) as PolicyDocument;
}

function keyOf(tenantId: string, destination: string): string {
  return `${tenantId}\n${destination}`;
}
