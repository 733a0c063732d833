/** Memory documents: the documents of the memory store, in a map. */
import type {
  DocumentTable,
  StoredDocument,
  UnversionedDocument,
} from "../../model/document-table.ts";
import { keyOf } from "./rows.ts";

export interface MemoryDocuments extends DocumentTable {
  /** Overwrites any stored version. */
  write(document: UnversionedDocument): void;
}

export function memoryDocuments(): MemoryDocuments {
  const documents = new Map<string, StoredDocument>();
  return {
    write(document) {
      const key = keyOf(document.kind, document.tenantId, document.id);
      documents.set(key, { ...document, version: (documents.get(key)?.version ?? 0) + 1 });
    },
    async put(document) {
      const key = keyOf(document.kind, document.tenantId, document.id);
      if ((documents.get(key)?.version ?? 0) !== document.version - 1) return false;
      documents.set(key, document);
      return true;
    },
    get: async (kind, tenantId, id) => documents.get(keyOf(kind, tenantId, id)) ?? null,
    async list(kind) {
      const found = [...documents.values()].filter((document) => document.kind === kind);
      return found.sort((one, other) => (one.id < other.id ? -1 : 1));
    },
    remove: async (kind, tenantId, id) => documents.delete(keyOf(kind, tenantId, id)),
  };
}
