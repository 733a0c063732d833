/**
 * Delivery document: stores the delivery settings of a destination document, and shows them again. Signing
 * secrets are encrypted before they are stored, and are never shown: a view has a placeholder for
 * each, and a document with that placeholder keeps the stored secret.
 */
import { createHash } from "node:crypto";
import { DocumentError, isObject } from "@redrive/core";
import { type Secrets, signingContext } from "../intake/secrets.ts";
import {
  type DisabledTarget,
  deliveryOf,
  disabledIn,
  withDisabled,
} from "../model/delivery/delivery-settings.ts";
import { SECRET_PLACEHOLDER } from "../model/delivery/signing-secret.ts";
import { parseStored } from "../model/stored-documents.ts";

type Fieldset = Readonly<Record<string, unknown>>;

const DIGITS = 8;

export interface DocumentPlace {
  readonly tenantId: string;
  readonly name: string;
  /** The stored document. */
  readonly text: string | null;
}

/**
 * The document to store: with encrypted secrets, and with the disabled targets of the stored one. Throws
 * `INVALID_DESTINATION` for an unknown placeholder, and if there is no key to encrypt with.
 * `checkDocument` has found no problem in the document.
 */
export function documentToStore(
  document: Fieldset,
  { tenantId, name, text }: DocumentPlace,
  secrets: Secrets,
): string {
  const stored = storedFields(text);
  const known = new Map(
    deliveryOf(stored).signingSecrets.map((secret) => [placeholderOf(secret), secret]),
  );
  const given = deliveryOf(document).signingSecrets;
  const context = signingContext(tenantId, name);
  const signingSecrets = given.map((secret) => known.get(secret) ?? seal(secret, context, secrets));
  const next = given.length === 0 ? document : { ...document, signingSecrets };
  return JSON.stringify(withDisabled(next, disabledIn(stored)));
}

function seal(secret: string, context: string, secrets: Secrets): string {
  if (secret.startsWith(SECRET_PLACEHOLDER)) {
    throw refused(`signingSecrets has no stored secret ${secret}; write the whole secret`);
  }
  const sealed = secrets.sealText(secret, context);
  if (sealed !== null) return sealed;
  const text = "signingSecrets are stored encrypted, and the service has no encryption key: set";
  throw refused(`${text} REDRIVE_ENCRYPTION_KEY (create one with \`openssl rand -base64 32\`)`);
}

function refused(message: string): Error {
  const problem = { field: "signingSecrets", value: undefined, message };
  return new DocumentError("INVALID_DESTINATION", [problem]);
}

/** The stored document as a user may see it; null: there is none, or it is not a JSON object. */
export function shownDocument(text: string | null): Fieldset | null {
  const stored = text === null ? null : parseStored(text);
  if (!isObject(stored)) return null;
  const { signingSecrets, ...shown } = withDisabled(stored, []);
  if (!Array.isArray(signingSecrets)) return shown;
  return { ...shown, signingSecrets: signingSecrets.map((one) => placeholderOf(String(one))) };
}

export function disabledTargetsOf(text: string | null): readonly DisabledTarget[] {
  return disabledIn(storedFields(text));
}

function storedFields(text: string | null): Fieldset {
  const stored = text === null ? null : parseStored(text);
  return isObject(stored) ? stored : {};
}

/** Names a stored secret. It is a digest of the encrypted text, so it says nothing about the secret. */
function placeholderOf(sealed: string): string {
  const digest = createHash("sha256").update(sealed).digest("hex");
  return `${SECRET_PLACEHOLDER}${digest.slice(0, DIGITS)}`;
}
