/**
 * Cursor: an opaque position in a list. A checksum ties it to its tenant and list, so that a
 * corrupted or foreign cursor is rejected. It is not a secret and grants nothing: only the tenant's
 * own rows are ever read.
 */
import { createHash } from "node:crypto";
import { DocumentError, quote } from "@redrive/core";

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
