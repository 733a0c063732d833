/**
 * Redact: takes known secrets out of what a target sent back, before it is stored. A target that
 * echoes our Authorization header must not make our log a place to steal it from.
 *
 * Everything here is latin1: one character a byte, whatever the bytes mean.
 */

const MASK = "***";

/** Shorter values are words of any text: masking them would hide the answer, not the secret. */
const MIN_SECRET_LENGTH = 4;

/** Every spelling of the secrets to look for: as sent, without its scheme, and as JSON has it. */
export function secretVariants(secrets: readonly string[]): readonly string[] {
  if (secrets.length === 0) return secrets;
  const variants = secrets.flatMap((secret) => {
    const credentials = /^[\w-]+ +(\S.*)$/.exec(secret)?.[1] ?? secret;
    return [secret, credentials, inJson(secret), inJson(credentials)];
  });
  const long = variants.filter((variant) => variant.length >= MIN_SECRET_LENGTH);
  // The longest first, so that no part of one is left standing by the mask of another.
  return [...new Set(long.flatMap(bytesOf))].sort((one, other) => other.length - one.length);
}

/** The text with every spelling masked. `isCut`: a spelling may also be cut off at the end. */
export function redact(text: string, variants: readonly string[], isCut: boolean): string {
  let masked = text;
  for (const variant of variants) masked = masked.replaceAll(variant, MASK);
  if (!isCut) return masked;
  const cut = Math.max(0, ...variants.map((variant) => cutLength(masked, variant)));
  return cut === 0 ? masked : masked.slice(0, -cut) + MASK;
}

/** How many characters at the end of the text begin the spelling. */
function cutLength(text: string, variant: string): number {
  for (let length = variant.length - 1; length >= MIN_SECRET_LENGTH; length--) {
    if (text.endsWith(variant.slice(0, length))) return length;
  }
  return 0;
}

function inJson(secret: string): string {
  return JSON.stringify(secret).slice(1, -1);
}

/** As UTF-8, and as the latin1 that a header goes out in. */
function bytesOf(text: string): readonly string[] {
  return [Buffer.from(text).toString("latin1"), Buffer.from(text, "latin1").toString("latin1")];
}
