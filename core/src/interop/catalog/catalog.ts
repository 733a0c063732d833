/**
 * Catalog: the retry defaults of other systems, as documents to simulate, to compare with and to start
 * from. Every entry has a date and a source. If a policy cannot express a system's rule, the entry says
 * how it differs. One difference is not listed: other systems exclude the ceiling when they draw, and
 * Redrive includes it, which is one millisecond.
 */

import { nearestName } from "../../documents/nearest-name.ts";
import { quote } from "../../errors/assert.ts";
import { RedriveError } from "../../errors/errors.ts";
import { awsEntries } from "./aws.ts";
import type { CatalogEntry } from "./entry.ts";
import { infrastructureEntries } from "./infrastructure.ts";
import { javascriptEntries } from "./javascript.ts";
import { otherLanguageEntries } from "./other-languages.ts";

export type { CatalogEntry } from "./entry.ts";

/** Every entry; each id is unique. */
export const catalog: readonly CatalogEntry[] = [
  ...awsEntries,
  ...infrastructureEntries,
  ...javascriptEntries,
  ...otherLanguageEntries,
];

/** The entry with that id; throws `INVALID_ARGUMENT` for an unknown id. */
export function catalogEntry(id: string): CatalogEntry {
  const found = catalog.find((entry) => entry.id === id);
  if (found !== undefined) return found;
  const ids = catalog.map((entry) => entry.id);
  const near = nearestName(String(id), ids);
  const hint = near === undefined ? `one of ${ids.join(", ")}` : `did you mean ${quote(near)}?`;
  throw new RedriveError("INVALID_ARGUMENT", `unknown catalog entry ${quote(id)}, ${hint}`);
}
