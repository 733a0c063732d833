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
  /** The documents of all tenants, ordered by id. */
  list(kind: string): Promise<readonly StoredDocument[]>;
  /** False if there was none. */
  remove(kind: string, tenantId: string, id: string): Promise<boolean>;
}

export type UnversionedDocument = Omit<StoredDocument, "version">;

export interface StoredDocument {
  readonly kind: string;
  readonly tenantId: string;
  readonly id: string;
  /** From 1. */
  readonly version: number;
  readonly text: string;
}
