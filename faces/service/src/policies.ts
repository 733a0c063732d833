/**
 * Policies: registered, replaced and looked up. A task is pinned to a version. Presets need no
 * registration, and a policy that comes with a task is kept under the digest of its document.
 */
import { type PolicyDocument, presets, resolve } from "@redrive/core";
import { type PolicyBook, type PolicyRef, PRESET_VERSION } from "./engine/policy-book.ts";
import { serviceError } from "./errors.ts";
import type { PolicyRow, Store } from "./store.ts";
import { DEFAULT_TENANT } from "./task.ts";

/** The digest of texts and bytes, in hexadecimal. */
export type Digest = (parts: readonly (string | Uint8Array)[]) => string;

export interface PolicyChoice {
  readonly policyId: string;
  readonly policyVersion: number;
}

/** More are forgotten and read again. */
const MOST_KNOWN = 10_000;

/** Of those who change one policy at the same time, each needs as many tries as there are others. */
const MOST_TRIES = 100;

export class Policies {
  readonly #store: Store;
  readonly #book: PolicyBook;
  readonly #digest: Digest;
  readonly #now: () => number;
  /** The newest version of each, as far as this process knows. */
  readonly #newest = new Map<string, PolicyChoice>();

  constructor(store: Store, book: PolicyBook, digest: Digest, now: () => number) {
    this.#store = store;
    this.#book = book;
    this.#digest = digest;
    this.#now = now;
  }

  /** What a task is pinned to, if that is known without asking the store. */
  known(tenantId: string, policyId: string): PolicyChoice | undefined {
    return this.#store.exclusive ? this.#newest.get(`${tenantId}\n${policyId}`) : undefined;
  }

  /** The newest version of a policy or preset; throws `UNKNOWN_POLICY`. */
  async choose(tenantId: string, policyId: string): Promise<PolicyChoice> {
    const row = await this.#store.getPolicy(tenantId, policyId);
    if (row !== null) return this.#note(row);
    if (!Object.hasOwn(presets, policyId)) {
      throw serviceError("UNKNOWN_POLICY", `there is no policy ${JSON.stringify(policyId)}`);
    }
    const preset = presets[policyId as keyof typeof presets];
    return this.#note(await this.#add(tenantId, policyId, preset));
  }

  /**
   * What a dead letter is sent under again: its own version or, if that was removed, the newest.
   * Asks the store, since what this process remembers of a removed one is gone at its next start.
   */
  async chooseAgain({ tenantId, policyId, policyVersion }: PolicyRef): Promise<PolicyChoice> {
    const isThere =
      policyVersion === PRESET_VERSION ||
      (await this.#store.getPolicy(tenantId, policyId, policyVersion)) !== null;
    return isThere ? { policyId, policyVersion } : this.choose(tenantId, policyId);
  }

  /** Keeps a policy that came with a task. */
  async chooseInline(tenantId: string, document: PolicyDocument): Promise<PolicyChoice> {
    const policyId = `inline.${this.#digest([JSON.stringify(resolve(document))]).slice(0, 40)}`;
    const known = this.known(tenantId, policyId);
    return known ?? this.#note(await this.#add(tenantId, policyId, document));
  }

  /** Adds a policy under its id. The same document again is no change; another one is refused. */
  async register(
    document: PolicyDocument,
    tenantId: string = DEFAULT_TENANT,
  ): Promise<PolicyChoice> {
    const policyId = idOf(document);
    const standing = await this.#add(tenantId, policyId, document);
    if (standing.document === JSON.stringify(document)) return this.#note(standing);
    const text = `policy ${JSON.stringify(policyId)} exists with another document; replace it`;
    throw serviceError("POLICY_CONFLICT", text);
  }

  /** Makes a document the newest version of its id. */
  async replace(
    document: PolicyDocument,
    tenantId: string = DEFAULT_TENANT,
  ): Promise<PolicyChoice> {
    const policyId = idOf(document);
    return this.#insist(policyId, async () => {
      const standing = await this.#store.getPolicy(tenantId, policyId);
      if (standing?.document === JSON.stringify(document)) return this.#note(standing);
      // Null: somebody else was first with that version, and this one comes after it.
      const version = (standing?.version ?? 0) + 1;
      const added = await this.#addVersion(tenantId, policyId, version, document);
      return added && this.#note(added);
    });
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

  /** False while a task that has not ended uses it. */
  async remove(policyId: string, tenantId: string = DEFAULT_TENANT): Promise<boolean> {
    this.#newest.delete(`${tenantId}\n${policyId}`);
    return this.#store.removePolicy(tenantId, policyId);
  }

  /** Adds the first version; what stands under the id already is left and returned. */
  #add(tenantId: string, policyId: string, document: PolicyDocument): Promise<PolicyRow> {
    return this.#insist(policyId, async () => {
      const added = await this.#addVersion(tenantId, policyId, 1, document);
      // Null: removed in between, and then it is new after all.
      return added ?? this.#store.getPolicy(tenantId, policyId);
    });
  }

  /** Tries until `change` is not overtaken by others, which it tells by null. */
  async #insist<T>(policyId: string, change: () => Promise<T | null>): Promise<T> {
    for (let tries = 1; tries <= MOST_TRIES; tries++) {
      const result = await change();
      if (result !== null) return result;
    }
    const text = `policy ${JSON.stringify(policyId)} was changed by others each of ${MOST_TRIES} times`;
    throw serviceError("POLICY_CONFLICT", `${text}; try again`);
  }

  /** Null if there is that version already. */
  async #addVersion(
    tenantId: string,
    policyId: string,
    version: number,
    document: PolicyDocument,
  ): Promise<PolicyRow | null> {
    resolve(document);
    const text = JSON.stringify(document);
    const row = { tenantId, policyId, version, document: text, createdAt: this.#now() };
    return (await this.#store.addPolicy(row)) ? row : null;
  }

  #note({ tenantId, policyId, version, document }: PolicyRow): PolicyChoice {
    const choice = { policyId, policyVersion: version };
    this.#book.keep({ tenantId, ...choice }, JSON.parse(document) as PolicyDocument);
    // Policies that come with tasks may be without number.
    if (this.#newest.size >= MOST_KNOWN) this.#newest.clear();
    this.#newest.set(`${tenantId}\n${policyId}`, choice);
    return choice;
  }
}

function idOf(document: PolicyDocument): string {
  resolve(document);
  if (document.policyId !== undefined) return document.policyId;
  throw serviceError("UNKNOWN_POLICY", "a policy to register must have a policyId, got none");
}
