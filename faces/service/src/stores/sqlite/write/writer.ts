/**
 * Writer: writes a batch in one transaction on the main thread (a worker thread was slower). Each
 * kind of item has its own file.
 */

import type { Batch, CommitResult } from "../../../model/batch.ts";
import type { UnversionedDocument } from "../../../model/document-table.ts";
import type { Sql } from "../file/sql.ts";
import type { DestinationTable } from "../tables/destination-table.ts";
import type { BatchContext } from "./batch-context.ts";
import { claimWriter } from "./claim-writer.ts";
import { createWriter } from "./create-writer.ts";
import { endWriter } from "./settle-writer.ts";

export function batchWriter(
  sql: Sql,
  destinations: DestinationTable,
  writeDocument: (document: UnversionedDocument) => void,
): (batch: Batch) => CommitResult {
  const create = createWriter(sql, destinations);
  const { settle, cancel, retryNow } = endWriter(sql, destinations, (task, context) => {
    if (task !== undefined) create({ task, fingerprint: null, claimVersion: null }, context);
  });
  const claim = claimWriter(sql, destinations);

  return (batch) => {
    const context: BatchContext = {
      now: batch.now,
      node: destinations.nodeNumber(batch.nodeId),
      refused: new Set(),
    };
    const result = {
      destinations: batch.destinations.map((item) => destinations.write(item, context.refused)),
      creates: batch.creates.map((item) => create(item, context)),
      settles: batch.settles.map((item) => settle(item, context)),
      cancels: batch.cancels.map((item) => cancel(item, context)),
      retryNows: batch.retryNows.map((item) => retryNow(item, context.now)),
      claims: batch.claims.map((item) => claim(item, context)),
    };
    for (const document of batch.documents) writeDocument(document);
    destinations.flush();
    return result;
  };
}
