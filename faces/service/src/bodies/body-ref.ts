/**
 * Body ref: the name of a body in the blob store. It contains the length and the SHA-256 of the bytes,
 * so that every reader can verify them. Tenants have separate names: a ref of one tenant finds nothing
 * of another.
 */

export interface BodyRef {
  /** UUIDv7: new for every upload, so that nobody else uses the name. */
  readonly blobId: string;
  /** In bytes. At least 1. */
  readonly length: number;
  /** In lower-case hexadecimal. */
  readonly sha256: string;
}

const FORM =
  /^([\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12})\.([1-9]\d{0,15})\.([\da-f]{64})$/;

export function bodyRefText({ blobId, length, sha256 }: BodyRef): string {
  return `${blobId}.${length}.${sha256}`;
}

/** Undefined if the text is not a ref. */
export function parseBodyRef(text: string): BodyRef | undefined {
  const [, blobId = "", length = "", sha256 = ""] = FORM.exec(text) ?? [];
  const bytes = Number(length);
  return blobId !== "" && Number.isSafeInteger(bytes)
    ? { blobId, length: bytes, sha256 }
    : undefined;
}

/**
 * The label of a task whose body is in the blob store; its value is the id of the blob. Every store has
 * an index of labels, which says whether a stored task uses a blob.
 */
export const BODY_LABEL = "redrive.body";
