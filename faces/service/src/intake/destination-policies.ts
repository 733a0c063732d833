/**
 * Destination policies: choose the policy of a task that names none: the policy in its
 * destination's document, otherwise the default. The task is pinned to a version like any other.
 */
import { DocumentError, fieldProblem, type PolicyDocument, RedriveError } from "@redrive/core";
import { BoundedCache } from "../collections/bounded-cache.ts";
import type { ServiceDocument } from "../model/delivery/delivery-settings.ts";
import type { Store } from "../model/store.ts";
import { parseStored, readDestination } from "../model/stored-documents.ts";
import type { NewTask } from "../model/task.ts";
import {
  isFresh,
  type Policies,
  type PolicyChoice,
  type ReadValue,
  SharedReads,
} from "./policies.ts";
import type { TaskInput } from "./task-input.ts";

const DEFAULT_POLICY = "background";

interface KnownPolicy extends ReadValue {
  readonly policyId: string;
  /** Undefined: tasks get the newest version. */
  readonly pinned: PolicyChoice | undefined;
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
    if (!isFresh(known, this.#store, this.#now())) return undefined;
    return known.pinned ?? this.#policies.known(tenantId, known.policyId);
  }

  choose(tenantId: string, destination: string): Promise<PolicyChoice> {
    const read = () => this.#read(tenantId, destination);
    return this.#reads.share(keyOf(tenantId, destination), read);
  }

  async #read(tenantId: string, destination: string): Promise<PolicyChoice> {
    const changes = this.#changes;
    const row = await this.#store.getDestination(tenantId, destination);
    const { policy, version } = policyOf(row?.document ?? null);
    const choice =
      typeof policy === "string"
        ? await this.#named(tenantId, policy, version)
        : await this.#policies.chooseInline(tenantId, policy);
    // A value that was read before a change must not be cached after it.
    if (changes === this.#changes) {
      const pinned = version === undefined ? undefined : choice;
      const known = { policyId: choice.policyId, pinned, readAt: this.#now() };
      this.#cached.set(keyOf(tenantId, destination), known);
    }
    return choice;
  }

  #named(tenantId: string, policyId: string, version?: number): Promise<PolicyChoice> {
    return version === undefined
      ? this.#policies.choose(tenantId, policyId)
      : this.#policies.chooseVersion(tenantId, policyId, version);
  }

  /** Throws `INVALID_DESTINATION` if the document names a policy that does not exist. */
  async assertKnown(tenantId: string, document: ServiceDocument): Promise<void> {
    const { policy, policyVersion } = document;
    if (typeof policy !== "string") return;
    const found = this.#named(tenantId, policy, policyVersion);
    const error = await found.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (error === undefined) return;
    if (!(error instanceof RedriveError) || error.code !== "UNKNOWN_POLICY") throw error;
    const field = policyVersion === undefined ? "policy" : "policyVersion";
    throw new DocumentError("INVALID_DESTINATION", [fieldProblem(field, policy, error.message)]);
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

interface NamedPolicy {
  readonly policy: string | PolicyDocument;
  readonly version?: number | undefined;
}

/** While the document cannot be read, its tasks are held, and new ones get the default policy. */
function policyOf(text: string | null): NamedPolicy {
  const reading = readDestination(text);
  if (text === null || reading.kind === "unreadable") return { policy: DEFAULT_POLICY };
  const { policy = DEFAULT_POLICY, policyVersion } = parseStored(text) as ServiceDocument;
  if (typeof policy === "string") return { policy, version: policyVersion };
  // An inline policy may have unknown fields, which must not be stored again.
  if (reading.ignored.length === 0) return { policy };
  return { policy: parseStored(JSON.stringify(reading.value.policy)) as PolicyDocument };
}

function keyOf(tenantId: string, destination: string): string {
  return `${tenantId}\n${destination}`;
}
