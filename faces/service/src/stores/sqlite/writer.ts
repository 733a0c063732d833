/**
 * Writer: carries out a batch, inside the one transaction of a turn and on the main thread (a
 * worker that wrote was slower). Each kind of item has a file of its own.
 */

import type { Batch, CommitResult } from "../../model/batch.ts";
import type { UnversionedDocument } from "../../model/document-table.ts";
import type { Author } from "./author.ts";
import { claimWriter } from "./claim-writer.ts";
import { createWriter } from "./create-writer.ts";
import { endWriter } from "./end-writer.ts";
import type { Places } from "./places.ts";
import type { Sql } from "./sql.ts";

export function batchWriter(
  sql: Sql,
  places: Places,
  writeNote: (note: UnversionedDocument) => void,
): (batch: Batch) => CommitResult {
  const create = createWriter(sql, places);
  const { settle, cancel, retryNow } = endWriter(sql, places, (task, author) => {
    if (task !== undefined) create({ task, fingerprint: null, claimVersion: null }, author);
  });
  const claim = claimWriter(sql, places);

  return (batch) => {
    const author: Author = {
      now: batch.now,
      node: places.nodeNumber(batch.nodeId),
      refused: new Set(),
    };
    const result = {
      destinations: batch.destinations.map((item) => places.write(item, author.refused)),
      creates: batch.creates.map((item) => create(item, author)),
      settles: batch.settles.map((item) => settle(item, author)),
      cancels: batch.cancels.map((item) => cancel(item, author)),
      retryNows: batch.retryNows.map((item) => retryNow(item, author.now)),
      claims: batch.claims.map((item) => claim(item, author)),
    };
    for (const note of batch.documents) writeNote(note);
    places.flush();
    return result;
  };
}
