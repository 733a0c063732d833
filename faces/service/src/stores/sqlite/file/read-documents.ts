/**
 * Read documents: reads the stored policies and destinations of a file without a service. No other
 * process may use the file meanwhile.
 */
import { openForCheck } from "./open.ts";

interface FileDocument {
  readonly kind: "policy" | "destination";
  /** For example: destination shop of tenant acme. */
  readonly title: string;
  readonly text: string;
}

/** Calls `visit` for each document. Throws like opening the file. */
export function readSqliteDocuments(file: string, visit: (document: FileDocument) => void): void {
  const { database, close } = openForCheck(file);
  const rowsOf = (text: string) =>
    database.prepare(text).iterate() as Iterable<Record<string, unknown>>;
  try {
    const policies = "SELECT tenant_id, policy_id, version, document FROM policies";
    for (const { tenant_id, policy_id, version, document } of rowsOf(policies)) {
      const title = `version ${version} of policy ${policy_id} of tenant ${tenant_id}`;
      visit({ kind: "policy", title, text: String(document) });
    }
    const destinations =
      "SELECT tenant_id, name, document FROM destinations WHERE document IS NOT NULL";
    for (const { tenant_id, name, document } of rowsOf(destinations)) {
      const title = `destination ${name} of tenant ${tenant_id}`;
      visit({ kind: "destination", title, text: String(document) });
    }
  } finally {
    close();
  }
}
