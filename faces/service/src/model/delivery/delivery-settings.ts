/**
 * Delivery settings: the fields of a destination document that only the service uses: secrets that sign
 * requests, what a 410 response does, and where dead letters are sent. Core checks the other fields.
 */
import {
  booleanRule,
  checkFields,
  type DestinationDocument,
  type FieldProblem,
  type Fields,
  isObject,
  listRule,
  textRule,
} from "@redrive/core";
import { SECRET_FORMAT } from "./signing-secret.ts";

/** While a secret rotates, the old and the new one both sign. */
export const MAX_SIGNING_SECRETS = 2;

/** The newest stay. A target that was dropped from the list responds 410 again, and is added again. */
export const MAX_DISABLED_TARGETS = 100;

/** Long enough for every secret of 64 bytes, also after it was encrypted. */
const secretRule = textRule(/^[^\s]{1,1000}$/su, "a secret without spaces");

const urlRule = textRule(/^https?:\/\/[^\s]{1,2000}$/u, "an http(s) URL");

/** The fields that a user may set. */
const DELIVERY_FIELDS: Fields = {
  signingSecrets: listRule(secretRule, 0, MAX_SIGNING_SECRETS),
  disableOnGone: booleanRule,
  deadLetterUrl: urlRule,
};

/** The service adds it to the stored document. */
const DISABLED_TARGETS = "disabledTargets";

type Fieldset = Readonly<Record<string, unknown>>;

/** A destination document as users of the service write it. */
export interface ServiceDocument extends DestinationDocument {
  /**
   * Standard Webhooks secrets (`whsec_` and the base64 of 24 to 64 bytes) that sign each request, at
   * most two. They are stored encrypted and never shown. Default: none.
   */
  readonly signingSecrets?: readonly string[];
  /** A 410 response disables its target URL until a person enables it again. Default: false. */
  readonly disableOnGone?: boolean;
  /** Each dead letter of the destination is posted there. Default: none is. */
  readonly deadLetterUrl?: string;
}

/** A target URL that responded 410. Nothing is sent there until a person enables it again. */
export interface DisabledTarget {
  readonly targetUrl: string;
  readonly disabledAt: number;
}

export interface DeliverySettings {
  /** As stored: encrypted. */
  readonly signingSecrets: readonly string[];
  /** A 410 response disables its target URL. */
  readonly disableOnGone: boolean;
  /** Each dead letter is posted there; null: none is. */
  readonly deadLetterUrl: string | null;
  /** The oldest first. */
  readonly disabledTargets: readonly DisabledTarget[];
}

/** Of a destination without a document. */
export const NO_SETTINGS: DeliverySettings = {
  signingSecrets: [],
  disableOnGone: false,
  deadLetterUrl: null,
  disabledTargets: [],
};

/** The problems of the delivery fields of a document, and no others. */
export function checkDelivery(document: unknown): readonly FieldProblem[] {
  if (!isObject(document)) return [];
  return checkFields(pick(document, isDeliveryField), DELIVERY_FIELDS).map(withoutSecret);
}

/** A message must not quote a secret. */
function withoutSecret(problem: FieldProblem): FieldProblem {
  if (problem.field !== "signingSecrets") return problem;
  const message = `signingSecrets must be a list of at most ${MAX_SIGNING_SECRETS} secrets, each ${SECRET_FORMAT}`;
  return { ...problem, value: undefined, message };
}

/** Without the fields of delivery that a user may set. `disabledTargets` stays, so it counts as unknown. */
export function withoutDelivery(document: Fieldset): Fieldset {
  return pick(document, (name) => !isDeliveryField(name));
}

/** The document without the fields of this file: what core reads. */
export function guardFields(document: Fieldset): Fieldset {
  return pick(document, (name) => !isDeliveryField(name) && name !== DISABLED_TARGETS);
}

/** Reads stored settings. `checkDelivery` has found no problem in them. */
export function deliveryOf(document: Fieldset): DeliverySettings {
  const { signingSecrets, disableOnGone, deadLetterUrl } = document as Partial<DeliverySettings>;
  const disabledTargets = disabledIn(document);
  const isDefault = !signingSecrets?.length && !disableOnGone && !deadLetterUrl;
  if (isDefault && disabledTargets.length === 0) return NO_SETTINGS;
  return {
    signingSecrets: signingSecrets ?? [],
    disableOnGone: disableOnGone ?? false,
    deadLetterUrl: deadLetterUrl ?? null,
    disabledTargets,
  };
}

/** The disabled targets in a stored document. */
export function disabledIn(document: Fieldset): readonly DisabledTarget[] {
  const stored = document[DISABLED_TARGETS];
  return Array.isArray(stored) ? stored.filter(isDisabledTarget) : [];
}

function isDisabledTarget(value: unknown): value is DisabledTarget {
  return (
    isObject(value) &&
    typeof value["targetUrl"] === "string" &&
    typeof value["disabledAt"] === "number"
  );
}

/** The stored document with these disabled targets. */
export function withDisabled(document: Fieldset, targets: readonly DisabledTarget[]): Fieldset {
  const { [DISABLED_TARGETS]: _, ...rest } = document;
  const newest = targets.slice(-MAX_DISABLED_TARGETS);
  return newest.length === 0 ? rest : { ...rest, [DISABLED_TARGETS]: newest };
}

export function isDisabled({ disabledTargets }: DeliverySettings, targetUrl: string): boolean {
  if (disabledTargets.length === 0) return false;
  return disabledTargets.some((target) => target.targetUrl === targetUrl);
}

function isDeliveryField(name: string): boolean {
  return Object.hasOwn(DELIVERY_FIELDS, name);
}

function pick(document: Fieldset, isWanted: (name: string) => boolean): Fieldset {
  return Object.fromEntries(Object.entries(document).filter(([name]) => isWanted(name)));
}
