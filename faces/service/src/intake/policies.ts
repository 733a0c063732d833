/**
 * Policies: registers, replaces and looks up policies. A task is pinned to a version. Presets need
 * no registration, and an inline policy is stored under the digest of its document.
 */
import { type PolicyDocument, resolvePolicy } from "@redrive/core";
import { BoundedCache } from "../collections/bounded-cache.ts";
import { serviceError } from "../model/errors.ts";
import { type PolicyCache, PRESET_VERSION } from "../model/policy-cache.ts";
import { INLINE_PREFIX, type PolicyRow, type Store } from "../model/store.ts";
import { DEFAULT_TENANT } from "../model/task.ts";
import { conflict, idOf, presetOf, retryConflicts } from "./policy-ids.ts";
import { PolicyPins } from "./policy-pins.ts";

/** The digest of strings and bytes, in hexadecimal. */
export type Digest = (parts: readonly (string | Uint8Array)[]) => string;

export interface PolicyChoice {
  readonly policyId: string;
  readonly policyVersion: number;
}

/** Beyond this number, policies are read from the store again. */
const MAX_KNOWN = 10_000;

/** Policies that one call of `removeUnused` examines, and removes in one commit. */
const UNUSED_LIMIT = 100;

export interface PoliciesParts {
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
  readonly #newest = new BoundedCache<PolicyChoice>(MAX_KNOWN);
  readonly #pins = new PolicyPins();
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
   * The version to pin a task to, if it is known without reading the store. This and the other
   * choices keep the policy from being removed until the caller calls `release` after the task is
   * stored.
   */
  known(tenantId: string, policyId: string): PolicyChoice | undefined {
    if (!this.#store.exclusive) return undefined;
    const key = keyOf(tenantId, policyId);
    const choice = this.#newest.get(key);
    if (choice !== undefined) this.#pins.pin(key, 1);
    return choice;
  }

  /** The newest version of a policy or preset; throws `UNKNOWN_POLICY`. */
  choose(tenantId: string, policyId: string): Promise<PolicyChoice> {
    return this.#pinned(tenantId, policyId, () => this.#choose(tenantId, policyId));
  }

  async #choose(tenantId: string, policyId: string): Promise<PolicyChoice> {
    const row = await this.#store.getPolicy(tenantId, policyId);
    if (row !== null) return this.#cache(row);
    const preset = presetOf(policyId);
    if (preset === undefined) {
      throw serviceError("UNKNOWN_POLICY", `there is no policy ${JSON.stringify(policyId)}`);
    }
    return this.#cache(await this.#add(tenantId, policyId, preset));
  }

  /** Stores an inline policy. */
  async chooseInline(tenantId: string, document: PolicyDocument): Promise<PolicyChoice> {
    const digest = this.#digest([JSON.stringify(resolvePolicy(document))]);
    const policyId = INLINE_PREFIX + digest.slice(0, 40);
    const add = async () => this.#cache(await this.#add(tenantId, policyId, document));
    return this.known(tenantId, policyId) ?? this.#pinned(tenantId, policyId, add);
  }

  /** The version of an ended task, for its redrive; the newest version if that one was removed. */
  rechoose(tenantId: string, { policyId, policyVersion }: PolicyChoice): Promise<PolicyChoice> {
    return this.#pinned(tenantId, policyId, async () => {
      const needsRow = policyVersion !== PRESET_VERSION;
      const row = needsRow && (await this.#store.getPolicy(tenantId, policyId, policyVersion));
      return row === null ? this.#choose(tenantId, policyId) : { policyId, policyVersion };
    });
  }

  /** Call when the task is stored, or will never be. */
  release(tenantId: string, policyId: string): void {
    this.#pins.pin(keyOf(tenantId, policyId), -1);
  }

  /** Prevents the removal of the policy until `release`, or until `work` fails. */
  async #pinned<T>(tenantId: string, policyId: string, work: () => Promise<T>): Promise<T> {
    const key = keyOf(tenantId, policyId);
    while (this.#pins.removalOf(key) !== undefined) {
      await this.#pins.removalOf(key)?.catch(() => {});
    }
    this.#pins.pin(key, 1);
    try {
      return await work();
    } catch (error) {
      this.#pins.pin(key, -1);
      throw error;
    }
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
    const choice = await this.#pinned(tenantId, policyId, async () => {
      await this.#assertNotPreset(tenantId, policyId, document);
      const standing = await this.#add(tenantId, policyId, document);
      if (standing.document === JSON.stringify(document)) return this.#cache(standing);
      throw conflict(policyId, "exists with a different document; replace it");
    });
    this.release(tenantId, policyId);
    return choice;
  }

  /** Tasks may use a preset that has no row yet, so another document would change a live policy. */
  async #assertNotPreset(
    tenantId: string,
    policyId: string,
    document: PolicyDocument,
  ): Promise<void> {
    const preset = presetOf(policyId);
    if (preset === undefined || JSON.stringify(preset) === JSON.stringify(document)) return;
    if ((await this.#store.getPolicy(tenantId, policyId)) !== null) return;
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
      if (standing?.document === JSON.stringify(document)) return this.#cache(standing);
      // Null: another caller added that version first, and this one follows it.
      const version = (standing?.version ?? 0) + 1;
      const added = await this.#addVersion(tenantId, policyId, version, document);
      return added && this.#cache(added);
    };
    const retried = () => retryConflicts(policyId, change);
    const choice = await this.#pinned(tenantId, policyId, retried);
    this.release(tenantId, policyId);
    this.#onReplaced(tenantId, policyId);
    return choice;
  }

  /** One version, or the newest; null if there is none. */
  get(
    policyId: string,
    tenantId: string = DEFAULT_TENANT,
    version?: number,
  ): Promise<PolicyRow | null> {
    return this.#store.getPolicy(tenantId, policyId, version);
  }

  list(tenantId: string = DEFAULT_TENANT): Promise<readonly PolicyRow[]> {
    return this.#store.listPolicies(tenantId);
  }

  /** False while a task that has not ended, or is about to be stored, uses it. */
  async remove(policyId: string, tenantId: string = DEFAULT_TENANT): Promise<boolean> {
    const key = keyOf(tenantId, policyId);
    await this.#pins.removalOf(key)?.catch(() => {});
    if (this.#pins.isPinned(key)) return false;
    this.#newest.delete(key);
    return this.#pins.remove([key], this.#store.removePolicy(tenantId, policyId));
  }

  /**
   * Removes inline policies that no stored task uses: callers may send any number. Examines a page
   * and continues there the next time. True: it found some, so there may be more. In a shared store
   * it does nothing, because another node may be about to store a task that uses one of them.
   */
  async removeUnused(): Promise<boolean> {
    if (!this.#store.exclusive) return false;
    const cursor = this.#unusedAfter;
    const page = await this.#store.unusedPolicies({ limit: UNUSED_LIMIT, cursor });
    this.#unusedAfter = page.cursor ?? undefined;
    const keyed = page.policies.map((one) => ({ ...one, key: keyOf(one.tenantId, one.policyId) }));
    const free = keyed.filter(({ key }) => !this.#pins.isPinned(key) && !this.#pins.removalOf(key));
    if (free.length === 0) return false;
    for (const { key } of free) this.#newest.delete(key);
    await this.#pins.remove(
      free.map(({ key }) => key),
      this.#store.removeInline(free).then(() => true),
    );
    return page.cursor !== null;
  }

  /** Adds the first version. If the id exists, returns its version unchanged. */
  #add(tenantId: string, policyId: string, document: PolicyDocument): Promise<PolicyRow> {
    return retryConflicts(policyId, async () => {
      const added = await this.#addVersion(tenantId, policyId, 1, document);
      // Null: the policy was removed in between, so the next try adds it.
      return added ?? this.#store.getPolicy(tenantId, policyId);
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
    return (await this.#store.addPolicy(row)) ? row : null;
  }

  #cache({ tenantId, policyId, version, document }: PolicyRow): PolicyChoice {
    const choice = { policyId, policyVersion: version };
    this.#book.addText({ tenantId, ...choice }, document);
    this.#newest.set(keyOf(tenantId, policyId), choice);
    return choice;
  }
}

function keyOf(tenantId: string, policyId: string): string {
  return `${tenantId}\n${policyId}`;
}
