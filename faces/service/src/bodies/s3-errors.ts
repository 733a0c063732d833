/** S3 errors: what an error of the AWS SDK means for a blob. */
import { BlobError, blobErrorOf } from "./blob-store.ts";

interface S3Error {
  readonly name?: string;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

/** `NotFound` is the answer to HEAD. A missing bucket is an error of the operator, not of the blob. */
export function faultOf(error: unknown, what: string): BlobError {
  if (error instanceof BlobError) return error;
  const { name = "", $metadata } = error as S3Error;
  if (name === "NoSuchKey" || name === "NotFound") {
    return new BlobError("missing", "there is no such body", error);
  }
  const known = blobErrorOf(error, what);
  if (known.fault === "full") return known;
  const status = $metadata?.httpStatusCode;
  const text = status === undefined ? name : `${name} (status ${status})`;
  return new BlobError("unavailable", `${what}: ${text}`, error);
}

/** A 4xx says that the same call fails again. */
export function isTransient(error: unknown): boolean {
  const { httpStatusCode = 500 } = (error as S3Error).$metadata ?? {};
  return httpStatusCode >= 500 || httpStatusCode === 429;
}
