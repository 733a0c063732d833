/**
 * Documents: what an operator was told stands is what was asked for; once another document stands,
 * an older one never comes back: no node writes over it what it knew before.
 */
import { assertThat, type Checker } from "../history.ts";

export function documents(): Checker {
  const name = "documents stand";
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
        assertThat(name, isNew, () => `${row.name}: ${text} came back over ${before}`);
        if (before !== undefined) replaced.add(before);
        current.set(row.name, text);
        stored.add(text);
      }
    },
    destinationChanged(_at, { document, name: destination }) {
      const wasStored = document === null || stored.has(document);
      assertThat(name, wasStored, () => `${destination}: told ${document}, which never stood`);
    },
  };
}
