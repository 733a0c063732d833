/**
 * Cursor: where the next page begins, in a form that promises nothing. It is tied to its tenant and
 * its list by a checksum, so that a mangled or foreign one is refused. It is no secret and grants
 * nothing: whatever it says, only the tenant's own rows are read.
 */
import { createHash } from "node:crypto";
import { DocumentError, quote } from "@redrive/core";

/** Which list of which tenant. */
export interface CursorScope {
  readonly tenantId: string;
  readonly list: string;
}

const CURSOR = /^([A-Za-z0-9_-]{1,100})\.([0-9a-f]{12})$/;

export function writeCursor(scope: CursorScope, position: string | null): string | null {
  if (position === null) return null;
  const text = Buffer.from(position).toString("base64url");
  return `${text}.${checksum(scope, text)}`;
}

/** Throws `INVALID_ARGUMENT` for one that was not written for this scope. */
export function readCursor(scope: CursorScope, cursor: string): string {
  const [, text = "", sum] = CURSOR.exec(cursor) ?? [];
  if (sum !== undefined && sum === checksum(scope, text)) {
    return Buffer.from(text, "base64url").toString();
  }
  const message = `cursor must be one that this list gave, got ${quote(cursor)}`;
  throw new DocumentError("INVALID_ARGUMENT", [{ field: "cursor", value: cursor, message }]);
}

function checksum({ tenantId, list }: CursorScope, text: string): string {
  const hash = createHash("sha256").update(`redrive cursor\n${tenantId}\n${list}\n${text}`);
  return hash.digest("hex").slice(0, 12);
}
