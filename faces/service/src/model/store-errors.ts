/**
 * Store errors: the failures of a store that the engine handles in a special way, and the end of a
 * read that its caller has aborted.
 */

/** The disk is full. Nothing of the batch was done, and the store is intact. */
export class StoreFullError extends Error {
  override readonly name: string = "StoreFullError";
}

/**
 * The store refuses an item of the batch because of its content, and would refuse it again. Nothing
 * of the batch was done, and the store is intact. The engine finds the item and commits the others.
 */
export class StoreRefusedError extends Error {
  override readonly name: string = "StoreRefusedError";
}

/** The store can no longer guarantee its content. The process must stop and start again. */
export class StoreBrokenError extends Error {
  override readonly name: string = "StoreBrokenError";
}

/** The caller aborted a read. `cause` is the signal's reason; the store is intact. */
export class ReadAbortedError extends Error {
  override readonly name: string = "ReadAbortedError";

  constructor(signal: AbortSignal) {
    super("the caller aborted the read", { cause: signal.reason });
  }
}
