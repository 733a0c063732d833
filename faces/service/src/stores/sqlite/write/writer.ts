/**
 * Writer: writes a batch in one transaction on the main thread (a worker thread was slower). Each
 * kind of item has its own file.
 */

import type { Batch, CommitResult } from "../../../model/batch.ts";
import type { UnversionedDocument } from "../../../model/document-table.ts";
import type { Sql } from "../file/sql.ts";
import type { DestinationTable } from "../tables/destination-table.ts";
import type { BatchContext, OpenClaim } from "./batch-context.ts";
import { type ClaimWriter, claimWriter } from "./claim-writer.ts";
import { createWriter, type HasPolicy } from "./create-writer.ts";
import { mayOpenEarly, newTaskClaims } from "./new-task-claims.ts";
import { endWriter } from "./settle-writer.ts";

export function batchWriter(
  sql: Sql,
  destinations: DestinationTable,
  writeDocument: (document: UnversionedDocument) => void,
  hasPolicy: HasPolicy,
): (batch: Batch) => CommitResult {
  const create = createWriter(sql, destinations, hasPolicy);
  const { settle, cancel, retryNow } = endWriter(sql, destinations, (tasks, context) => {
    if (tasks === undefined) return;
    for (const task of tasks) create({ task, fingerprint: null, claimVersion: null }, context);
  });
  const claimer = claimWriter(sql, destinations);

  return (batch) => {
    const context: BatchContext = {
      now: batch.now,
      node: destinations.nodeNumber(batch.nodeId),
      refused: new Set(),
      newTaskClaims: undefined,
    };
    const rows = batch.destinations.map((item) => destinations.write(item, context.refused));
    const open = mayOpenEarly(batch) ? openClaims(claimer, batch, context) : undefined;
    const creates = batch.creates.map((item) => create(item, context));
    const settles = settle(batch.settles, context);
    const cancels = batch.cancels.map((item) => cancel(item, context));
    const retryNows = batch.retryNows.map((item) => retryNow(item, context.now));
    const claims = open
      ? open.map((one) => claimer.finish(one, context))
      : batch.claims.map((item) => claimer.finish(claimer.open(item, context), context));
    for (const document of batch.documents) writeDocument(document);
    destinations.flush();
    return { destinations: rows, creates, settles, cancels, retryNows, claims };
  };
}

function openClaims(claimer: ClaimWriter, batch: Batch, context: BatchContext): OpenClaim[] {
  const open = batch.claims.map((item) => claimer.open(item, context));
  context.newTaskClaims = newTaskClaims(open);
  return open;
}
