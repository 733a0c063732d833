/**
 * Documents: checks that a document reported to an operator was really stored, and that a replaced
 * document never comes back. No node may overwrite a newer document with an older one that it still
 * remembers.
 */
import { assertThat, type Checker } from "../history.ts";

export function documents(): Checker {
  const name = "no old document returns";
  const current = new Map<string, string>();
  const replaced = new Set<string>();
  const stored = new Set<string>();
  return {
    name,
    committed({ batch, result }) {
      for (const [index, { row }] of batch.destinations.entries()) {
        if (result.destinations[index] !== null) continue;
        const before = current.get(row.name);
        if (before === (row.document ?? undefined)) continue;
        const text = row.document ?? "none";
        const isNew = row.document !== null && !replaced.has(text);
        assertThat(name, isNew, () => `${row.name}: ${text} came back and replaced ${before}`);
        if (before !== undefined) replaced.add(before);
        current.set(row.name, text);
        stored.add(text);
      }
    },
    destinationChanged(_at, { document, name: destination }) {
      const wasStored = document === null || stored.has(document);
      assertThat(
        name,
        wasStored,
        () => `${destination}: reported ${document}, which was never stored`,
      );
    },
  };
}
