/**
 * Catalogue: what others really do, as documents to simulate, to compare with and to start from.
 * Every entry is dated and names its source; where a peer's rule cannot be said in a policy, the
 * entry says how it differs. Not counted as a difference: peers that draw below their ceiling leave
 * it out, where Redrive's draw may reach it, which is one millisecond.
 */
import { quote } from "./assert.ts";
import { awsEntries } from "./catalogue/aws.ts";
import type { CatalogueEntry } from "./catalogue/entry.ts";
import { infrastructureEntries } from "./catalogue/infrastructure.ts";
import { javascriptEntries } from "./catalogue/javascript.ts";
import { otherLanguageEntries } from "./catalogue/other-languages.ts";
import { nearest } from "./document.ts";
import { RedriveError } from "./errors.ts";

export type { CatalogueEntry } from "./catalogue/entry.ts";

/** Every entry, each id once. */
export const catalogue: readonly CatalogueEntry[] = [
  ...awsEntries,
  ...infrastructureEntries,
  ...javascriptEntries,
  ...otherLanguageEntries,
];

/** The entry of that id; throws `INVALID_ARGUMENT` for any other id. */
export function catalogueEntry(id: string): CatalogueEntry {
  const found = catalogue.find((entry) => entry.id === id);
  if (found !== undefined) return found;
  const ids = catalogue.map((entry) => entry.id);
  const near = nearest(String(id), ids);
  const hint = near === undefined ? `one of ${ids.join(", ")}` : `did you mean ${quote(near)}?`;
  throw new RedriveError("INVALID_ARGUMENT", `unknown catalogue entry ${quote(id)}, ${hint}`);
}
