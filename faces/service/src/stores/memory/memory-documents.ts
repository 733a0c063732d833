/** Memory documents: the documents of the memory store, in a map. */
import type {
  DocumentTable,
  StoredDocument,
  UnversionedDocument,
} from "../../model/document-table.ts";
import { keyOf } from "./rows.ts";

export interface MemoryDocuments extends DocumentTable {
  /** Overwrites or removes any stored version. */
  write(document: UnversionedDocument): void;
  all(): readonly StoredDocument[];
  find(kind: string, tenantId: string, id: string): StoredDocument | undefined;
  /** Adds a document with any version. */
  restore(document: StoredDocument): void;
}

export function memoryDocuments(): MemoryDocuments {
  const documents = new Map<string, StoredDocument>();
  return {
    all: () => [...documents.values()],
    find: (kind, tenantId, id) => documents.get(keyOf(kind, tenantId, id)),
    restore: (document) =>
      void documents.set(keyOf(document.kind, document.tenantId, document.id), document),
    write(document) {
      const { kind, tenantId, id, text } = document;
      const key = keyOf(kind, tenantId, id);
      const version = (documents.get(key)?.version ?? 0) + 1;
      if (text === null) documents.delete(key);
      else documents.set(key, { kind, tenantId, id, text, version });
    },
    async put(document) {
      const key = keyOf(document.kind, document.tenantId, document.id);
      if ((documents.get(key)?.version ?? 0) !== document.version - 1) return false;
      documents.set(key, document);
      return true;
    },
    get: async (kind, tenantId, id) => documents.get(keyOf(kind, tenantId, id)) ?? null,
    getMany: async (kind, keys) =>
      keys.map(({ tenantId, id }) => documents.get(keyOf(kind, tenantId, id))?.text ?? null),
    async list(kind, { limit, tenantId, cursor = "" }) {
      const positionOf = (one: StoredDocument) => keyOf(one.tenantId, one.id);
      const found = [...documents.values()]
        .filter((one) => one.kind === kind && one.tenantId === (tenantId ?? one.tenantId))
        .filter((one) => positionOf(one) > cursor)
        .sort((one, other) => (positionOf(one) < positionOf(other) ? -1 : 1));
      const page = found.slice(0, limit);
      const last = found.length > limit ? page.at(-1) : undefined;
      return { documents: page, cursor: last ? positionOf(last) : null };
    },
    remove: async (kind, tenantId, id) => documents.delete(keyOf(kind, tenantId, id)),
  };
}
