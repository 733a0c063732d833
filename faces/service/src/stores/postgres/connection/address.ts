/**
 * Address: reads the URL of a PostgreSQL store. The parameters `schema`, `durability` and `connections` are
 * ours and are removed; all others belong to the driver.
 */
import { invalidArgument } from "@redrive/core";

export interface Address {
  /** For the driver. */
  readonly url: string;
  /** The schema that contains the tables. */
  readonly schema: string;
  /** `relaxed`: a crash of the machine may lose or damage what was acknowledged. Default: `strict`. */
  readonly durability: "strict" | "relaxed";
  /** Connections of this node at once, besides the one that hears wake-ups. 2 to 100. Default: 10. */
  readonly connections: number;
}

const DEFAULT_CONNECTIONS = 10;

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
  const durability = url.searchParams.get("durability") ?? "strict";
  url.searchParams.delete("schema");
  url.searchParams.delete("durability");
  const connections = readConnections(url.searchParams.get("connections"));
  url.searchParams.delete("connections");
  if (!SCHEMA_NAME.test(schema) || schema.startsWith("pg_")) {
    throw invalidArgument("schema must be a name of lowercase letters, digits and _", schema);
  }
  if (durability !== "strict" && durability !== "relaxed") {
    throw invalidArgument("durability must be strict or relaxed", durability);
  }
  return { url: url.href, schema, durability, connections };
}

function readConnections(text: string | null): number {
  if (text === null) return DEFAULT_CONNECTIONS;
  const count = /^\d{1,3}$/u.test(text) ? Number(text) : Number.NaN;
  if (count >= 2 && count <= 100) return count;
  throw invalidArgument("connections must be a whole number from 2 to 100", text);
}

/** The schema that contains the functions of one version of the tables' schema. */
export function functionsSchema(schema: string, version: number): string {
  return `${schema}_v${version}`;
}

/** Gives the tables and functions in a statement their schemas. Statements are written for the default. */
export function inSchema(schema: string, functions: string, sql: string): string {
  const text = sql.replaceAll("redrive_functions.", `${functions}.`);
  return schema === DEFAULT_SCHEMA ? text : text.replaceAll(`${DEFAULT_SCHEMA}.`, `${schema}.`);
}
