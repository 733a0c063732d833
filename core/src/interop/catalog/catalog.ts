/**
 * Catalogue: what others really do, as documents to simulate, to compare with and to start from.
 * Every entry is dated and names its source; where a peer's rule cannot be said in a policy, the
 * entry says how it differs. Not counted as a difference: peers that draw below their ceiling leave
 * it out, where Redrive's draw may reach it, which is one millisecond.
 */

import { nearestName } from "../../documents/document.ts";
import { quote } from "../../errors/assert.ts";
import { RedriveError } from "../../errors/errors.ts";
import { awsEntries } from "./aws.ts";
import type { CatalogEntry } from "./entry.ts";
import { infrastructureEntries } from "./infrastructure.ts";
import { javascriptEntries } from "./javascript.ts";
import { otherLanguageEntries } from "./other-languages.ts";

export type { CatalogEntry } from "./entry.ts";

/** Every entry, each id once. */
export const catalog: readonly CatalogEntry[] = [
  ...awsEntries,
  ...infrastructureEntries,
  ...javascriptEntries,
  ...otherLanguageEntries,
];

/** The entry of that id; throws `INVALID_ARGUMENT` for any other id. */
export function catalogEntry(id: string): CatalogEntry {
  const found = catalog.find((entry) => entry.id === id);
  if (found !== undefined) return found;
  const ids = catalog.map((entry) => entry.id);
  const near = nearestName(String(id), ids);
  const hint = near === undefined ? `one of ${ids.join(", ")}` : `did you mean ${quote(near)}?`;
  throw new RedriveError("INVALID_ARGUMENT", `unknown catalogue entry ${quote(id)}, ${hint}`);
}
