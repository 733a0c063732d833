/**
 * Policies: registers, replaces and looks up policies. A task is pinned to a version. Presets need
 * no registration, and an inline policy is stored under the digest of its document.
 */
import {
  DocumentError,
  fieldProblem,
  nearestName,
  type PolicyDocument,
  presets,
  quote,
  RedriveError,
  resolvePolicy,
} from "@redrive/core";
import { BoundedCache } from "../collections/bounded-cache.ts";
import type { ServiceDocument } from "../model/delivery/delivery-settings.ts";
import { serviceError } from "../model/errors.ts";
import type { PolicyCache } from "../model/policy-cache.ts";
import { INLINE_PREFIX, type PolicyRow, PRESET_VERSION, type Store } from "../model/store.ts";
import { parseStored, readDestination } from "../model/stored-documents.ts";
import { DEFAULT_TENANT, type NewTask } from "../model/task.ts";
import type { TaskInput } from "./task-input.ts";

/** The digest of strings and bytes, in hexadecimal. */
export type Digest = (parts: readonly (string | Uint8Array)[]) => string;

export interface PolicyChoice {
  readonly policyId: string;
  readonly policyVersion: number;
}

type KnownChoice = PolicyChoice & ReadValue;

/** Beyond this number, policies are read from the store again. */
const MAX_KNOWN = 10_000;
/** Ids that are compared with an unknown one: comparing costs time. */
const MAX_COMPARED = 100;
/** Known policies, of all tenants, among which these ids are searched. */
const MAX_EXAMINED = 1000;

/** Policies that one call of `removeUnused` examines, and removes in one commit. */
const UNUSED_LIMIT = 100;

interface PoliciesParts {
  readonly store: Store;
  readonly book: PolicyCache;
  readonly digest: Digest;
  readonly now: () => number;
  /** A policy has a new version. Default: nothing happens. */
  readonly onReplaced?: (tenantId: string, policyId: string) => void;
}

export class Policies {
  readonly #store: Store;
  readonly #book: PolicyCache;
  readonly #digest: Digest;
  readonly #now: () => number;
  readonly #onReplaced: (tenantId: string, policyId: string) => void;
  /** The newest version of each policy, as far as this process knows. */
  readonly #newest = new BoundedCache<KnownChoice>(MAX_KNOWN);
  readonly #reads = new SharedReads<PolicyChoice>();
  /** Where the search for unused policies continues. */
  #unusedAfter: string | undefined;

  constructor({ store, book, digest, now, onReplaced = () => {} }: PoliciesParts) {
    this.#store = store;
    this.#book = book;
    this.#digest = digest;
    this.#now = now;
    this.#onReplaced = onReplaced;
  }

  /**
   * The version to pin a task to, if it is known without reading the store. In a shared store another
   * node may have replaced it a moment ago.
   */
  known(tenantId: string, policyId: string): PolicyChoice | undefined {
    const known = this.#newest.get(keyOf(tenantId, policyId));
    if (known === undefined) return undefined;
    return isFresh(known, this.#store, this.#now) ? known : undefined;
  }

  /** Call when the store has refused a version: it was removed, or another node removed it. */
  forget(tenantId: string, policyId: string): void {
    this.#newest.delete(keyOf(tenantId, policyId));
  }

  /** The newest version of a policy or preset; throws `UNKNOWN_POLICY`. */
  choose(tenantId: string, policyId: string): Promise<PolicyChoice> {
    return this.#reads.share(keyOf(tenantId, policyId), () => this.#read(tenantId, policyId));
  }

  /** One version of a registered policy; throws `UNKNOWN_POLICY`. */
  async chooseVersion(tenantId: string, policyId: string, version: number): Promise<PolicyChoice> {
    const row = await this.get(policyId, tenantId, version);
    if (row !== null) return { policyId, policyVersion: version };
    const text = `there is no version ${version} of policy ${JSON.stringify(policyId)}`;
    throw serviceError("UNKNOWN_POLICY", text);
  }

  async #read(tenantId: string, policyId: string): Promise<PolicyChoice> {
    const row = await this.#store.getPolicy(tenantId, policyId);
    if (row !== null && row.removedAt === null) return this.#cache(row);
    const preset = presetOf(policyId);
    if (preset === undefined) throw this.unknown("UNKNOWN_POLICY", tenantId, policyId);
    return this.#cache(await this.#add(tenantId, policyId, preset));
  }

  /**
   * The error for an id that nobody has registered, with the nearest one that this process knows. The
   * others are not read: a tenant may have registered any number of them.
   */
  unknown(code: "NOT_FOUND" | "UNKNOWN_POLICY", tenantId: string, policyId: string): Error {
    return unknownPolicy(code, policyId, this.#knownIds(tenantId));
  }

  #knownIds(tenantId: string): readonly string[] {
    const ids: string[] = [];
    const prefix = keyOf(tenantId, "");
    const inline = keyOf(tenantId, INLINE_PREFIX);
    let examined = 0;
    for (const key of this.#newest.keys()) {
      if (ids.length === MAX_COMPARED || examined++ === MAX_EXAMINED) break;
      if (!key.startsWith(prefix) || key.startsWith(inline)) continue;
      const policyId = key.slice(prefix.length);
      if (this.known(tenantId, policyId) !== undefined) ids.push(policyId);
    }
    return ids;
  }

  /** Stores an inline policy. */
  async chooseInline(tenantId: string, document: PolicyDocument): Promise<PolicyChoice> {
    const digest = this.#digest([JSON.stringify(resolvePolicy(document))]);
    const policyId = INLINE_PREFIX + digest.slice(0, 40);
    const known = this.known(tenantId, policyId);
    return known ?? this.#cache(await this.#add(tenantId, policyId, document));
  }

  /** The version of an ended task, for its redrive; the newest version if that one was removed. */
  async rechoose(
    tenantId: string,
    { policyId, policyVersion }: PolicyChoice,
  ): Promise<PolicyChoice> {
    if (policyVersion === PRESET_VERSION) return { policyId, policyVersion };
    const row = await this.#store.getPolicy(tenantId, policyId, policyVersion);
    const isLive = row !== null && row.removedAt === null;
    return isLive ? { policyId, policyVersion } : this.choose(tenantId, policyId);
  }

  /**
   * Adds a policy under its id. The same document again changes nothing; a different one is
   * rejected. A preset counts as registered.
   */
  async register(
    document: PolicyDocument,
    tenantId: string = DEFAULT_TENANT,
  ): Promise<PolicyChoice> {
    const policyId = idOf(document);
    await this.#assertNotPreset(tenantId, policyId, document);
    const standing = await this.#add(tenantId, policyId, document);
    if (standing.document === JSON.stringify(document)) return this.#cache(standing);
    throw conflict(policyId, "exists with a different document; replace it");
  }

  /** Tasks may use a preset that has no row yet, so another document would change a live policy. */
  async #assertNotPreset(
    tenantId: string,
    policyId: string,
    document: PolicyDocument,
  ): Promise<void> {
    const preset = presetOf(policyId);
    if (preset === undefined || JSON.stringify(preset) === JSON.stringify(document)) return;
    if ((await this.get(policyId, tenantId)) !== null) return;
    throw conflict(policyId, "is a preset with a different document; choose another id");
  }

  /** Makes a document the newest version of its id. */
  async replace(
    document: PolicyDocument,
    tenantId: string = DEFAULT_TENANT,
  ): Promise<PolicyChoice> {
    const policyId = idOf(document);
    const change = async () => {
      const standing = await this.#store.getPolicy(tenantId, policyId);
      const isSame = standing?.document === JSON.stringify(document);
      if (standing !== null && isSame && standing.removedAt === null) return this.#cache(standing);
      // Null: another caller added that version first, and this one follows it.
      const version = (standing?.version ?? 0) + 1;
      const added = await this.#addVersion(tenantId, policyId, version, document);
      return added && this.#cache(added);
    };
    const choice = await retryConflicts(policyId, change);
    this.#onReplaced(tenantId, policyId);
    return choice;
  }

  /** One version, or the newest; null if there is none, or if it was removed. */
  async get(
    policyId: string,
    tenantId: string = DEFAULT_TENANT,
    version?: number,
  ): Promise<PolicyRow | null> {
    const row = await this.#store.getPolicy(tenantId, policyId, version);
    return row === null || row.removedAt !== null ? null : row;
  }

  list(tenantId: string = DEFAULT_TENANT): Promise<readonly PolicyRow[]> {
    return this.#store.listPolicies(tenantId);
  }

  /** False while a task that has not ended uses it. A create that comes later is refused. */
  remove(policyId: string, tenantId: string = DEFAULT_TENANT): Promise<boolean> {
    this.forget(tenantId, policyId);
    return this.#store.removePolicy(tenantId, policyId, this.#now());
  }

  /**
   * Removes inline policies that no stored task uses: callers may send any number. Examines a page
   * and continues there the next time. True: it found some, so there may be more. A task that is about
   * to be stored under one of them is refused by the store, and its policy is then stored again.
   */
  async removeUnused(): Promise<boolean> {
    const cursor = this.#unusedAfter;
    const page = await this.#store.unusedPolicies({ limit: UNUSED_LIMIT, cursor });
    this.#unusedAfter = page.cursor ?? undefined;
    if (page.policies.length === 0) return false;
    for (const { tenantId, policyId } of page.policies) this.forget(tenantId, policyId);
    await this.#store.removeInline(page.policies);
    return page.cursor !== null;
  }

  /** Adds a policy. If the id exists, returns its newest version unchanged. */
  #add(tenantId: string, policyId: string, document: PolicyDocument): Promise<PolicyRow> {
    return retryConflicts(policyId, async () => {
      const standing = await this.#store.getPolicy(tenantId, policyId);
      if (standing !== null && standing.removedAt === null) return standing;
      // Null: another caller was first, and the next try finds its version.
      return this.#addVersion(tenantId, policyId, (standing?.version ?? 0) + 1, document);
    });
  }

  /** Null if that version exists. */
  async #addVersion(
    tenantId: string,
    policyId: string,
    version: number,
    document: PolicyDocument,
  ): Promise<PolicyRow | null> {
    resolvePolicy(document);
    const text = JSON.stringify(document);
    const row = { tenantId, policyId, version, document: text, createdAt: this.#now() };
    return (await this.#store.addPolicy(row)) ? { ...row, removedAt: null } : null;
  }

  #cache({ tenantId, policyId, version, document }: PolicyRow): PolicyChoice {
    const choice = { policyId, policyVersion: version };
    this.#book.addText({ tenantId, ...choice }, document);
    this.#newest.set(keyOf(tenantId, policyId), { ...choice, readAt: this.#now() });
    return choice;
  }
}

function keyOf(tenantId: string, policyId: string): string {
  return `${tenantId}\n${policyId}`;
}

// Policy ids: the ids that presets and inline policies have, which nobody can register for another
// document.

export function presetOf(policyId: string): PolicyDocument | undefined {
  return Object.hasOwn(presets, policyId) ? presets[policyId as keyof typeof presets] : undefined;
}

function conflict(policyId: string, what: string): Error {
  return serviceError("POLICY_CONFLICT", `policy ${JSON.stringify(policyId)} ${what}`);
}

/**
 * There is no such policy. `ids`: registered ones; the nearest of them and of the presets is suggested.
 * The id itself may be among them, if another node has removed it a moment ago.
 */
function unknownPolicy(
  code: "NOT_FOUND" | "UNKNOWN_POLICY",
  policyId: string,
  ids: readonly string[],
): Error {
  const others = [...ids, ...Object.keys(presets)].filter((id) => id !== policyId);
  const near = nearestName(policyId, others);
  const hint = near === undefined ? "" : `, did you mean ${quote(near)}?`;
  return serviceError(code, `there is no policy ${JSON.stringify(policyId)}${hint}`);
}

/** The id under which a document is registered; throws if it has none, or a reserved one. */
function idOf(document: PolicyDocument): string {
  resolvePolicy(document);
  const { policyId } = document;
  if (policyId?.startsWith(INLINE_PREFIX)) {
    const text = `policyId must not begin with "${INLINE_PREFIX}", as the ids of inline policies do`;
    throw new DocumentError("INVALID_POLICY", [fieldProblem("policyId", policyId, text)]);
  }
  if (policyId !== undefined) return policyId;
  throw serviceError("UNKNOWN_POLICY", "a registered policy must have a policyId, got none");
}

/** When several callers change one policy at the same time, each may need one try per other caller. */
const MAX_TRIES = 100;

/** Repeats `change` until it is not overtaken by another caller, which it reports by null. */
async function retryConflicts<T>(policyId: string, change: () => Promise<T | null>): Promise<T> {
  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    const result = await change();
    if (result !== null) return result;
  }
  throw conflict(policyId, `was changed by other callers ${MAX_TRIES} times in a row; try again`);
}

// Shared reads: callers that need the same read in the same turn share one. A batch of 500 tasks to
// one destination would otherwise make 500 reads at once, and a shared store has few connections. A
// read is shared only until the current turn ends, so it is never older than the call that gets it.

class SharedReads<Value> {
  readonly #begun = new Map<string, Promise<Value>>();

  share(key: string, read: () => Promise<Value>): Promise<Value> {
    const begun = this.#begun.get(key);
    if (begun !== undefined) return begun;
    const value = read();
    this.#begun.set(key, value);
    // Callers that continue in this turn run before it.
    void Promise.resolve().then(() => this.#begun.delete(key));
    return value;
  }
}

// Fresh: whether a value that was read from the store may be used without reading it again.

interface ReadValue {
  readonly readAt: number;
}

/** In a shared store, where another node may have changed the value. */
const KNOWN_MS = 2000;

/** The clock may have been set back since, so a value from the future is old too. */
function isFresh(
  { readAt }: ReadValue,
  { exclusive }: Pick<Store, "exclusive">,
  now: () => number,
): boolean {
  return exclusive || Math.abs(now() - readAt) < KNOWN_MS;
}

// Destination policies: choose the policy of a task that names none: the policy in its
// destination's document, otherwise the default. The task is pinned to a version like any other.

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
    const known = this.#cached.get(policyKeyOf(tenantId, destination));
    if (known === undefined) return undefined;
    if (!isFresh(known, this.#store, this.#now)) return undefined;
    return known.pinned ?? this.#policies.known(tenantId, known.policyId);
  }

  choose(tenantId: string, destination: string): Promise<PolicyChoice> {
    const read = () => this.#read(tenantId, destination);
    return this.#reads.share(policyKeyOf(tenantId, destination), read);
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
      this.#cached.set(policyKeyOf(tenantId, destination), known);
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
    this.#cached.delete(policyKeyOf(tenantId, destination));
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

function policyKeyOf(tenantId: string, destination: string): string {
  return `${tenantId}\n${destination}`;
}
