/** Signing secret: the text of a Standard Webhooks secret, and what is shown instead of a stored one. */

const PREFIX = "whsec_";

const MIN_BYTES = 24;
const MAX_BYTES = 64;

/** Base64 without its padding. The last character has no bits beyond the last byte. */
const BASE64 =
  /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048])?$/u;

/** Begins what a view shows instead of a secret. No secret has a `*`. */
export const SECRET_PLACEHOLDER = `${PREFIX}***`;

/** For messages. */
export const SECRET_FORMAT = `${PREFIX} followed by the base64 of ${MIN_BYTES} to ${MAX_BYTES} bytes`;

/** Does not quote the secret. */
export const BAD_SECRET = `signing secret must be ${SECRET_FORMAT}`;

/** The base64 of a secret: an optional `whsec_`, then base64 of 24 to 64 bytes. Undefined: malformed. */
export function secretBase64(secret: string): string | undefined {
  const padded = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret;
  const base64 = padded.replace(/=+$/u, "");
  const bytes = Math.floor((base64.length * 3) / 4);
  const isGood = BASE64.test(base64) && bytes >= MIN_BYTES && bytes <= MAX_BYTES;
  return isGood ? base64 : undefined;
}
