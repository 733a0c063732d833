/**
 * Suggest name: what to write instead of an unknown field. It knows the options of other retry libraries, so
 * `retries: 3` gives `maxAttempts: 4`. Programs in a browser have `suggest-nearest.ts` instead.
 */
import { FOREIGN_OPTIONS, type ForeignOption } from "./foreign-options.ts";
import { nearestName } from "./nearest-name.ts";

/** A field, or a field with its value such as `maxAttempts: 4`; undefined: nothing is close. */
export function suggestName(
  name: string,
  known: readonly string[],
  value: unknown,
): string | undefined {
  if (name === "policy" && known.includes("maxAttempts")) return POLICY_FIELDS_HINT;
  return (
    foreignName(name, known, value) ??
    nearestName(name, known) ??
    foreignName(nearestName(name, Object.keys(FOREIGN_OPTIONS)), known, value)
  );
}

/** A destination has a `policy`; the options of one call have its fields. */
const POLICY_FIELDS_HINT = "the fields of the policy themselves, such as maxAttempts: 3";

function foreignName(
  name: string | undefined,
  known: readonly string[],
  value: unknown,
): string | undefined {
  const isForeign = name !== undefined && Object.hasOwn(FOREIGN_OPTIONS, name);
  const option = isForeign ? FOREIGN_OPTIONS[name] : undefined;
  return option && foreignSuggestion(option, known, value);
}

/** Undefined if the document can have neither the field nor the part that contains it. */
function foreignSuggestion(
  { field, part, convert }: ForeignOption,
  known: readonly string[],
  value: unknown,
): string | undefined {
  const converted = convert(value);
  const text = converted === undefined ? field : `${field}: ${converted}`;
  if (part !== undefined && known.includes(part)) return `${part}: { ${text} }`;
  return known.includes(field) ? text : undefined;
}
