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
  fieldProblem,
  isObject,
  listRule,
  numberRule,
  type PolicyDocument,
  presets,
  SIGNING_SECRET_FORMAT,
  textRule,
} from "@redrive/core";

/** Begins what a view shows instead of a stored signing secret. No secret has a `*`. */
export const SECRET_PLACEHOLDER = "whsec_***";

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
  policyVersion: numberRule(1, Number.MAX_SAFE_INTEGER),
};

/** The service adds it to the stored document. */
const DISABLED_TARGETS = "disabledTargets";

type Fieldset = Readonly<Record<string, unknown>>;

/** A destination document as users of the service write it. */
export interface ServiceDocument extends Omit<DestinationDocument, "policy"> {
  /** A policy document, or the id of a registered policy or a preset. Default: `background`. */
  readonly policy?: PolicyDocument | string | undefined;
  /** New tasks get this version of the named policy. Default: they get the newest one. */
  readonly policyVersion?: number;
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
  const problems = checkFields(pick(document, isDeliveryField), DELIVERY_FIELDS);
  return [...problems.map(withoutSecret), ...checkVersion(document)];
}

/** Only a policy with an id has versions. */
function checkVersion({ policy, policyVersion }: Fieldset): readonly FieldProblem[] {
  if (policyVersion === undefined || typeof policy === "string") return [];
  const message = "policyVersion must be used with the id of a policy: policy is none";
  return [fieldProblem("policyVersion", policyVersion, message)];
}

/** A message must not quote a secret. */
function withoutSecret(problem: FieldProblem): FieldProblem {
  if (problem.field !== "signingSecrets") return problem;
  const message = `signingSecrets must be a list of at most ${MAX_SIGNING_SECRETS} secrets, each ${SIGNING_SECRET_FORMAT}`;
  return { ...problem, value: undefined, message };
}

/**
 * Without the fields of delivery that a user may set, and without the id of a registered policy, which core
 * does not know. `disabledTargets` stays, so it counts as unknown.
 */
export function withoutDelivery(document: Fieldset): Fieldset {
  const isNamed = isRegisteredPolicy(document["policy"]);
  return pick(document, (name) => !isDeliveryField(name) && !(isNamed && name === "policy"));
}

/** The document without the fields of this file: what core reads. */
export function guardFields(document: Fieldset): Fieldset {
  return pick(withoutDelivery(document), (name) => name !== DISABLED_TARGETS);
}

/** The id of a policy that is no preset. Only the service knows whether it exists. */
export function isRegisteredPolicy(policy: unknown): policy is string {
  if (typeof policy !== "string" || Object.hasOwn(presets, policy)) return false;
  return /^[\w.-]{1,64}$/u.test(policy);
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
