/**
 * Blob collector: removes blobs that no stored task uses: their tasks were removed after their
 * retention, or a create failed after the upload. It lists the blobs in slices and asks the store about
 * each old one. A blob is removed when two rounds, at least an hour apart, found no task that uses it: a
 * create or a redrive that began before the first one has long ended by the second.
 */
import type { TaskQuery } from "../model/task-query.ts";
import { type BlobStore, BODY_LABEL, bodyRefText, type StoredBlob } from "./blob-store.ts";

const HOUR_MS = 3_600_000;

/** An upload, and the create that follows it, take less. */
const MIN_AGE_MS = 6 * HOUR_MS;

/** From the start of a round to the start of the next one. */
const ROUND_MS = HOUR_MS;

/** Blobs that one slice examines. Each costs a read of the store. */
const SLICE = 50;

/** The blobs to remove in the next round, at most; about 10 MB. Others wait for a later round. */
const MAX_UNUSED = 50_000;

interface BlobCollectorParts {
  readonly blobs: Pick<BlobStore, "list" | "remove">;
  readonly query: Pick<TaskQuery, "list">;
  readonly now: () => number;
}

export class BlobCollector {
  readonly #parts: BlobCollectorParts;
  /** The list of the current round; undefined between rounds. */
  #list: AsyncIterator<StoredBlob> | undefined;
  #nextRoundAt = Number.NEGATIVE_INFINITY;
  /** When each blob was first found unused. */
  #unused = new Map<string, number>();
  #stillUnused = new Map<string, number>();

  constructor(parts: BlobCollectorParts) {
    this.#parts = parts;
  }

  /** Examines the next blobs. True: this round has more. */
  async runOnce(): Promise<boolean> {
    const { blobs, now } = this.#parts;
    if (this.#list === undefined) {
      if (now() < this.#nextRoundAt) return false;
      this.#nextRoundAt = now() + ROUND_MS;
      this.#list = blobs.list(now())[Symbol.asyncIterator]();
    }
    try {
      for (let count = 0; count < SLICE; count++) {
        const { done, value } = await this.#list.next();
        if (done) return this.#endRound();
        await this.#examine(value);
      }
    } catch (error) {
      // The next round starts from the beginning, and knows what this one has found.
      void this.#list?.return?.();
      this.#list = undefined;
      for (const [name, at] of this.#stillUnused) this.#unused.set(name, at);
      throw error;
    }
    return true;
  }

  /** Forgets blobs that are gone or in use again. */
  #endRound(): false {
    this.#list = undefined;
    this.#unused = this.#stillUnused;
    this.#stillUnused = new Map();
    return false;
  }

  async #examine({ tenantId, ref, storedAt }: StoredBlob): Promise<void> {
    const { blobs, now } = this.#parts;
    if (now() - storedAt < MIN_AGE_MS || (await this.#isUsed(tenantId, ref.blobId))) return;
    const name = `${tenantId}\n${bodyRefText(ref)}`;
    const since = this.#unused.get(name) ?? now();
    if (now() - since >= ROUND_MS) await blobs.remove(tenantId, ref);
    else if (this.#stillUnused.size < MAX_UNUSED) this.#stillUnused.set(name, since);
  }

  /** Only a null cursor ends a list: a page may be empty although more tasks match. */
  async #isUsed(tenantId: string, blobId: string): Promise<boolean> {
    const filter = { label: { name: BODY_LABEL, value: blobId } };
    let cursor: string | null | undefined;
    while (cursor !== null) {
      const page = { limit: 1, ...(cursor !== undefined && { cursor }) };
      const found = await this.#parts.query.list(tenantId, filter, page);
      if (found.tasks.length > 0) return true;
      cursor = found.cursor;
    }
    return false;
  }
}
