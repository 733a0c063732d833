/**
 * Stored text: makes every JavaScript string storable. PostgreSQL has no NUL in text, so NUL is
 * written as U+0001 and "0", and U+0001 as U+0001 and "1". This keeps the order of texts.
 * Half of a surrogate pair is replaced, as in every UTF-8 encoder.
 */

const ESCAPE = "\u0001";

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to escape.
const ESCAPED = /[\0\u0001]/gu;
const HALF_PAIR = /\p{Surrogate}/gu;
/** Escapes in JSON text that the server may not accept. */
const SUSPECT = /\\u(?:000[01]|d[89a-f])/u;

/** The text to store. */
export function storedText(text: string): string {
  if (!text.includes("\0") && !text.includes(ESCAPE)) return text;
  return text.replace(ESCAPED, (one) => `${ESCAPE}${one === ESCAPE ? "1" : "0"}`);
}

/** The text that was stored. */
export function originalText(text: string): string {
  if (!text.includes(ESCAPE)) return text;
  return text.replaceAll(`${ESCAPE}0`, "\0").replaceAll(`${ESCAPE}1`, ESCAPE);
}

/** JSON in which every text is storable. */
export function storedJson(value: unknown): string {
  const json = JSON.stringify(value);
  if (!SUSPECT.test(json)) return json;
  return JSON.stringify(value, (_, one) =>
    typeof one === "string" ? storedText(one).replace(HALF_PAIR, "\uFFFD") : one,
  );
}

/** The value of JSON that the server has made of stored texts. */
export function originalJson<T>(json: string): T {
  if (!json.includes("\\u0001")) return JSON.parse(json) as T;
  return JSON.parse(json, (_, one) => (typeof one === "string" ? originalText(one) : one)) as T;
}
