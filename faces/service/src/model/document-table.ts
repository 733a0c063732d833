/**
 * Document table: small versioned documents that outlive a process and belong to no task: running
 * redrives, the check of the encryption key, saved guard state. The kind names their owner.
 */

export interface DocumentTable {
  /**
   * Durable once it resolves. False, without a change, unless the stored version is `version - 1`
   * (0: none is stored). Of two writers of one version, only one succeeds.
   */
  put(document: StoredDocument): Promise<boolean>;
  get(kind: string, tenantId: string, id: string): Promise<StoredDocument | null>;
  /** The texts of several documents; null for one that does not exist. */
  getMany(kind: string, keys: readonly DocumentKey[]): Promise<readonly (string | null)[]>;
  /** The documents of a kind, of all tenants or of one, ordered by tenant and id, in pages. */
  list(kind: string, page: DocumentPage): Promise<DocumentList>;
  /** False if there was none. */
  remove(kind: string, tenantId: string, id: string): Promise<boolean>;
}

export interface DocumentKey {
  readonly tenantId: string;
  readonly id: string;
}

export interface DocumentPage {
  /** At least 1. */
  readonly limit: number;
  /** Default: all tenants. */
  readonly tenantId?: string;
  /** The cursor of the previous page; opaque. */
  readonly cursor?: string | undefined;
}

export interface DocumentList {
  readonly documents: readonly StoredDocument[];
  /** Null on the last page. */
  readonly cursor: string | null;
}

/** A write of any version. Text null: the document is removed, if there is one. */
export interface UnversionedDocument extends DocumentKey {
  readonly kind: string;
  readonly text: string | null;
}

/** Saved guard state. The id is the name of a destination; it is removed after the destination. */
export const GUARD_DOCUMENT = "guards";

export interface StoredDocument extends DocumentKey {
  readonly kind: string;
  /** From 1. */
  readonly version: number;
  readonly text: string;
}
