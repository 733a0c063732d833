/** Lookup error: a lookup that failed for a reason of our own, or of the name servers. */

/** `TOO_MANY_LOOKUPS`: the tenant has too many lookups in progress. Others are codes of `node:dns`. */
export type LookupErrorCode = "LOOKUP_TIMEOUT" | "TOO_MANY_LOOKUPS" | (string & {});

export class LookupError extends Error {
  override readonly name = "LookupError";
  readonly code: LookupErrorCode;

  constructor(code: LookupErrorCode) {
    super(`the lookup failed (${code})`);
    this.code = code;
  }
}

/** The code of any error; empty if it has none. */
export function lookupCodeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return typeof code === "string" ? code : "";
}
