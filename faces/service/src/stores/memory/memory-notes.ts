/**
 * Memory notes: the note table of the memory store, a map.
 */
import type {
  DocumentTable,
  StoredDocument,
  UnversionedDocument,
} from "../../model/document-table.ts";
import { keyOf } from "./rows.ts";

export interface MemoryNotes extends DocumentTable {
  /** Writes over whatever stands. */
  write(note: UnversionedDocument): void;
}

export function memoryNotes(): MemoryNotes {
  const notes = new Map<string, StoredDocument>();
  return {
    write(note) {
      const key = keyOf(note.kind, note.tenantId, note.id);
      notes.set(key, { ...note, version: (notes.get(key)?.version ?? 0) + 1 });
    },
    async put(note) {
      const key = keyOf(note.kind, note.tenantId, note.id);
      if ((notes.get(key)?.version ?? 0) !== note.version - 1) return false;
      notes.set(key, note);
      return true;
    },
    get: async (kind, tenantId, id) => notes.get(keyOf(kind, tenantId, id)) ?? null,
    async list(kind) {
      const found = [...notes.values()].filter((note) => note.kind === kind);
      return found.sort((one, other) => (one.id < other.id ? -1 : 1));
    },
    remove: async (kind, tenantId, id) => notes.delete(keyOf(kind, tenantId, id)),
  };
}
