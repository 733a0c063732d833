/** Owner: whether a database belongs to Redrive, and to a version that this one can read. */
import { RedriveError } from "@redrive/core";
import { APPLICATION_ID } from "./first-schema.ts";
import { SCHEMA_VERSION } from "./migrations.ts";
import { firstValue } from "./query.ts";
import type { Database } from "./sql.ts";

/** Throws for a database of another program or of a newer Redrive. An empty one is nobody's. */
export function assertOwn(database: Database, file: string): void {
  const owner = firstValue(database, "SELECT * FROM pragma_application_id");
  const version = Number(firstValue(database, "SELECT * FROM pragma_user_version"));
  const isEmpty = Number(firstValue(database, "SELECT * FROM pragma_schema_version")) === 0;
  if (owner !== APPLICATION_ID && !isEmpty) {
    const message = `${file} is a database of another program; give Redrive a separate file`;
    throw new RedriveError("INVALID_ARGUMENT", message);
  }
  if (version > SCHEMA_VERSION) {
    const versions = `its schema is ${version}, this version supports up to ${SCHEMA_VERSION}`;
    const message = `${file} was written by a newer Redrive (${versions}); upgrade this one`;
    throw new RedriveError("INVALID_ARGUMENT", message);
  }
}
