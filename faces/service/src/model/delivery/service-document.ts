/**
 * Service document: checks a destination document as a user writes it, without the service that stores
 * it. Only the service can check that it has a key for secrets, that a placeholder stands for a
 * stored secret, and that it may send to an address.
 */
import {
  BAD_SIGNING_SECRET,
  checkDestination,
  type FieldProblem,
  fieldProblem,
  isObject,
  signingSecretBase64,
} from "@redrive/core";
import {
  checkDelivery,
  deliveryOf,
  SECRET_PLACEHOLDER,
  withoutDelivery,
} from "./delivery-settings.ts";
import { type KnownFields, withoutUnknown } from "./unknown-fields.ts";

type Fieldset = Readonly<Record<string, unknown>>;

/** The problems of a document that a user wants to store. */
export function checkDocument(document: unknown): readonly FieldProblem[] {
  if (!isObject(document)) return checkDestination(document);
  const delivery = checkDelivery(document);
  return [
    ...(delivery.length === 0 ? checkSecrets(document) : delivery),
    ...checkDestination(withoutDelivery(document)),
    ...checkHedge(document),
  ];
}

/** The document without the fields that this version does not know, and the problems of the rest. */
export function knownDocument(document: Fieldset): KnownFields {
  return withoutUnknown(document, checkDocument);
}

/** A placeholder stands for a stored secret, which was checked when it was stored. */
function checkSecrets(document: Fieldset): readonly FieldProblem[] {
  const isBad = (secret: string) =>
    !secret.startsWith(SECRET_PLACEHOLDER) && signingSecretBase64(secret) === undefined;
  if (!deliveryOf(document).signingSecrets.some(isBad)) return [];
  return [{ field: "signingSecrets", value: undefined, message: BAD_SIGNING_SECRET }];
}

/** A hedge is a second request for one attempt; the service counts every request (decision 10). */
function checkHedge({ hedge }: Fieldset): readonly FieldProblem[] {
  if (hedge === undefined || hedge === false) return [];
  const message = "hedge works only in the library: the service sends each attempt once; remove it";
  return [fieldProblem("hedge", hedge, message)];
}
