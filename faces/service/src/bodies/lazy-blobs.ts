/**
 * Lazy blobs: a blob store that is opened at its first use, and again if that failed. A service without
 * large bodies creates no directory, and one whose bucket does not respond still starts.
 */
import type { BlobStore, StoredBlob } from "./blob-store.ts";

export interface LazyBlobsOptions {
  readonly name: string;
  readonly open: () => Promise<BlobStore>;
  /** False: nothing was ever stored, so that a list need not open it. */
  readonly exists: () => boolean;
}

export function lazyBlobs({ name, open, exists }: LazyBlobsOptions): BlobStore {
  let opening: Promise<BlobStore> | undefined;
  const opened = () => {
    opening ??= open().catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    return opening;
  };
  return {
    name,
    write: async (upload) => (await opened()).write(upload),
    check: async (tenantId, ref) => (await opened()).check(tenantId, ref),
    open: async (tenantId, ref, signal) => (await opened()).open(tenantId, ref, signal),
    remove: async (tenantId, ref) => (await opened()).remove(tenantId, ref),
    async *list(now): AsyncGenerator<StoredBlob> {
      if (opening !== undefined || exists()) yield* (await opened()).list(now);
    },
    owner: async (storeId) => (await opened()).owner(storeId),
    async close() {
      const blobs = await opening?.catch(() => undefined);
      await blobs?.close();
    },
  };
}
