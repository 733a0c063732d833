/**
 * Redact: removes known secrets from a response before it is stored. A target that echoes our
 * Authorization header must not put it into our log.
 *
 * All strings here are latin1: one character per byte, whatever the bytes mean.
 */
import type { Headers } from "../model/task.ts";
import { isHarmlessHeader } from "../model/task-headers.ts";

const MASK = "***";

/** Shorter values occur in any text: masking them would hide the response, not the secret. */
const MIN_SECRET_LENGTH = 4;

/** The part of a request that may hold secrets. */
export interface SecretRequest {
  /**
   * Values of headers that are not harmless must not be stored, even if the target sends them back.
   */
  readonly headers: Headers;
  /** More values that must not be stored. */
  readonly secrets?: readonly string[];
}

/** Values that must not be stored if the target sends them back. */
export function secretsOf({ headers, secrets = NONE }: SecretRequest): readonly string[] {
  const found = Object.entries(headers).filter(([name, value]) => mayBeSecret(name, value));
  return found.length === 0 ? secrets : [...secrets, ...found.map(([, value]) => value)];
}

const NONE: readonly string[] = [];

/** A header with such a name is a secret, however short its value. */
const CREDENTIALS = /auth|cookie|key|pass|secret|session|sign|token/i;

/** Shorter values of other headers ("prod", "true") are ordinary words of any response. */
const LIKELY_SECRET = 8;

function mayBeSecret(name: string, value: string): boolean {
  return !isHarmlessHeader(name) && (value.length >= LIKELY_SECRET || CREDENTIALS.test(name));
}

/** All variants of the secrets to search for: as sent, without the scheme, and escaped for JSON. */
export function secretVariants(secrets: readonly string[]): readonly string[] {
  if (secrets.length === 0) return secrets;
  const variants = new Set<string>();
  for (const secret of secrets) {
    const credentials = /^[\w-]+ +(\S.*)$/.exec(secret)?.[1] ?? secret;
    for (const text of [secret, credentials]) {
      if (SAME_IN_ANY_FORM.test(text)) variants.add(text);
      else for (const form of formsOf(text)) variants.add(form);
    }
  }
  const long = [...variants].filter((variant) => variant.length >= MIN_SECRET_LENGTH);
  // Longest first, so that masking a short variant leaves no part of a longer one.
  return long.sort((one, other) => other.length - one.length);
}

/** ASCII without control characters, quotes and backslashes: nearly all secrets. */
const SAME_IN_ANY_FORM = /^[ !#-[\]-~]*$/;

/** As sent, and escaped for JSON, both as bytes. */
function formsOf(text: string): readonly string[] {
  return [text, inJson(text)].flatMap(bytesOf);
}

/** Masks every variant in the text. `isCut`: the text may end in the middle of a variant. */
export function redact(text: string, variants: readonly string[], isCut: boolean): string {
  let masked = text;
  for (const variant of variants) masked = masked.replaceAll(variant, MASK);
  if (!isCut) return masked;
  const cut = Math.max(0, ...variants.map((variant) => cutLength(masked, variant)));
  return cut === 0 ? masked : masked.slice(0, -cut) + MASK;
}

/** How many characters at the end of the text are the start of the variant. */
function cutLength(text: string, variant: string): number {
  for (let length = variant.length - 1; length >= MIN_SECRET_LENGTH; length--) {
    if (text.endsWith(variant.slice(0, length))) return length;
  }
  return 0;
}

function inJson(secret: string): string {
  return JSON.stringify(secret).slice(1, -1);
}

/** As UTF-8, and as the latin1 in which headers are sent. */
function bytesOf(text: string): readonly string[] {
  return [Buffer.from(text).toString("latin1"), Buffer.from(text, "latin1").toString("latin1")];
}
