/** Table name: checks the name of a table that becomes part of SQL statements. */
import { invalidArgument } from "@redrive/core";

/** Names that need no quotes, with room for the suffix of an index. PostgreSQL cuts at 63 bytes. */
const NAME = /^([a-z_][a-z0-9_]{0,47}\.)?[a-z_][a-z0-9_]{0,47}$/;

export function tableName(name = "redrive_idempotency"): string {
  if (typeof name === "string" && NAME.test(name)) return name;
  const text = "table must be a name of lowercase letters, digits and _ (up to 48 characters)";
  throw invalidArgument(text, name);
}
