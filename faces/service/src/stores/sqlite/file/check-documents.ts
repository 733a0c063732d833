/**
 * Check documents: lists the stored policies and destinations that this version cannot read. No other
 * process may use the file meanwhile.
 */
import { type Reading, readDestination, readPolicy } from "../../../model/stored-documents.ts";
import { openFile } from "./open.ts";

/** A sentence for each unreadable document; empty if there are none. Throws like opening the file. */
export function checkSqliteDocuments(file: string): readonly string[] {
  const { database, lock } = openFile(file);
  const found: string[] = [];
  const check = (title: string, reading: Reading<unknown>) => {
    if (reading.kind === "unreadable") found.push(`${title}: ${reading.reason}`);
  };
  try {
    const policies = database.prepare(
      "SELECT tenant_id, policy_id, version, document FROM policies",
    );
    for (const row of policies.iterate() as Iterable<Record<string, unknown>>) {
      const { tenant_id, policy_id, version, document } = row;
      const title = `version ${version} of policy ${policy_id} of tenant ${tenant_id}`;
      check(title, readPolicy(String(document)));
    }
    const destinations = database.prepare(
      "SELECT tenant_id, name, document FROM destinations WHERE document IS NOT NULL",
    );
    for (const row of destinations.iterate() as Iterable<Record<string, unknown>>) {
      const title = `destination ${row["name"]} of tenant ${row["tenant_id"]}`;
      check(title, readDestination(String(row["document"])));
    }
    return found;
  } finally {
    database.close();
    lock.close();
  }
}
