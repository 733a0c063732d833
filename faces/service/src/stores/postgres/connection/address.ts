/**
 * Address: reads the URL of a PostgreSQL store. The parameter `schema` is ours and is removed; all
 * others belong to the driver.
 */
import { invalidArgument } from "@redrive/core";

export interface Address {
  /** For the driver. */
  readonly url: string;
  /** The schema that contains the tables. */
  readonly schema: string;
}

const DEFAULT_SCHEMA = "redrive";

/** Names that need no quotes in SQL; a name that is too long would be cut. */
const SCHEMA_NAME = /^[a-z_][a-z0-9_]{0,49}$/u;

export function isPostgresUrl(text: string): boolean {
  return /^postgres(?:ql)?:\/\/./u.test(text);
}

/** Throws `INVALID_ARGUMENT`. Messages never quote the URL, which may contain a password. */
export function readAddress(text: string): Address {
  if (!isPostgresUrl(text) || !URL.canParse(text)) {
    throw invalidArgument(
      "the store must be postgres://USER:PASSWORD@HOST:PORT/DATABASE",
      text.slice(0, text.indexOf(":") + 1),
    );
  }
  const url = new URL(text);
  const schema = url.searchParams.get("schema") ?? DEFAULT_SCHEMA;
  url.searchParams.delete("schema");
  if (SCHEMA_NAME.test(schema) && !schema.startsWith("pg_")) return { url: url.href, schema };
  throw invalidArgument("schema must be a name of lowercase letters, digits and _", schema);
}

/** Gives the tables in a statement their schema. Statements are written for the default schema. */
export function inSchema(schema: string, sql: string): string {
  return schema === DEFAULT_SCHEMA ? sql : sql.replaceAll(`${DEFAULT_SCHEMA}.`, `${schema}.`);
}
