/**
 * Idempotency key: reads the header `Idempotency-Key`. The IETF draft makes it a string in quotes (RFC
 * 9651); most clients send the bare key. Both forms of one key mean the same.
 */

export interface KeyHeader {
  readonly key: string;
  /** The key was in quotes, as the draft demands. */
  readonly isQuoted: boolean;
}

/** Printable ASCII in quotes, where a backslash stands before a quote or a backslash; then parameters. */
const QUOTED = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])+)"(.*)$/;

/** The draft defines no parameters. Unknown ones are ignored, as in every structured field. */
const PARAMETERS =
  /^(?:; *[a-z*][a-z0-9_.*-]*(?:=(?:"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"|[^\s;",]+))?)*$/;

/** Visible ASCII. A comma may come from two headers, which the server has joined. */
const BARE = /^[\x21\x23-\x2b\x2d-\x7e][\x21\x23-\x7e]*$/;

/** Undefined if the value is neither a string in quotes nor a bare key. */
export function parseKeyHeader(value: string): KeyHeader | undefined {
  const text = value.trim();
  const [, quoted, parameters = ""] = QUOTED.exec(text) ?? [];
  if (quoted !== undefined) {
    if (!PARAMETERS.test(parameters)) return undefined;
    return { key: quoted.replace(/\\(["\\])/g, "$1"), isQuoted: true };
  }
  return BARE.test(text) ? { key: text, isQuoted: false } : undefined;
}
