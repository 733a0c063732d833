/**
 * List query: converts the query of a list to the filter of a store, and reads and writes its
 * cursor.
 */
import { createHash } from "node:crypto";
import { DocumentError, quote } from "@redrive/core";
import type { TaskFilter } from "../model/task-query.ts";
import type { DeadFilterFields, ListQuery } from "../schemas/task-schemas.ts";

/** Ignores the fields for paging. */
export function toTaskFilter(query: DeadFilterFields & Pick<ListQuery, "status">): TaskFilter {
  const { status, label, policyId, destination, idempotencyKey, reason, lastStatus } = query;
  const { createdFrom, createdTo, finishedFrom, finishedTo, redriven } = query;
  const filter = {
    status,
    policyId,
    destination,
    idempotencyKey,
    reason,
    lastStatus,
    createdFrom,
    createdTo,
    finishedFrom,
    finishedTo,
    redriven,
    label: label === undefined ? undefined : labelOf(label),
  };
  const given = Object.entries(filter).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as TaskFilter;
}

/** The schema guarantees a `=`, and names cannot contain one. */
function labelOf(text: string): NonNullable<TaskFilter["label"]> {
  const equals = text.indexOf("=");
  return { name: text.slice(0, equals), value: text.slice(equals + 1) };
}

// Cursor: an opaque position in a list. A checksum ties it to its tenant and list, so that a
// corrupted or foreign cursor is rejected. It is not a secret and grants nothing: only the tenant's
// own rows are ever read.

/** The list and the tenant that a cursor belongs to. */
export interface CursorScope {
  readonly tenantId: string;
  readonly list: string;
}

const CURSOR = /^([A-Za-z0-9_-]{1,400})\.([0-9a-f]{12})$/;

export function writeCursor(scope: CursorScope, position: string | null): string | null {
  if (position === null) return null;
  const text = Buffer.from(position).toString("base64url");
  return `${text}.${checksum(scope, text)}`;
}

/** Throws `INVALID_ARGUMENT` for a cursor of another list or tenant. */
export function readCursor(scope: CursorScope, cursor: string): string {
  const [, text = "", sum] = CURSOR.exec(cursor) ?? [];
  if (sum !== undefined && sum === checksum(scope, text)) {
    return Buffer.from(text, "base64url").toString();
  }
  const message = `cursor must come from this list, got ${quote(cursor)}`;
  throw new DocumentError("INVALID_ARGUMENT", [{ field: "cursor", value: cursor, message }]);
}

function checksum({ tenantId, list }: CursorScope, text: string): string {
  const hash = createHash("sha256").update(`redrive cursor\n${tenantId}\n${list}\n${text}`);
  return hash.digest("hex").slice(0, 12);
}
