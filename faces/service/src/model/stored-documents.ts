/**
 * Stored documents: reads the policies and destinations that this or another version of Redrive has
 * stored. Reading is lenient: an unknown field is ignored. A value that this version does not
 * understand makes the document unreadable, because guessing could send requests that it forbids.
 */
import {
  checkDestination,
  checkPolicy,
  type Destination,
  type FieldProblem,
  isObject,
  type Policy,
  resolveDestination,
  resolvePolicy,
} from "@redrive/core";
import {
  checkDelivery,
  type DeliverySettings,
  deliveryOf,
  guardFields,
  NO_SETTINGS,
} from "./delivery/delivery-settings.ts";
import { withoutUnknown } from "./delivery/unknown-fields.ts";

export type Reading<T> =
  /** `ignored`: the unknown fields. */
  | { readonly kind: "read"; readonly value: T; readonly ignored: readonly string[] }
  | { readonly kind: "unreadable"; readonly reason: string };

export function readPolicy(text: string): Reading<Policy> {
  return read(text, checkPolicy, (document) => resolvePolicy(document));
}

/** A destination as the service applies it. */
export interface ServiceDestination extends Destination {
  readonly delivery: DeliverySettings;
}

export const DEFAULT_DESTINATION: ServiceDestination = {
  delivery: NO_SETTINGS,
  ...resolveDestination({}, "service"),
};

export const READ_DEFAULTS: Reading<ServiceDestination> = {
  kind: "read",
  value: DEFAULT_DESTINATION,
  ignored: [],
};

/** The document of a destination as the service applies it. Null: all defaults. */
export function readDestination(text: string | null): Reading<ServiceDestination> {
  if (text === null) return READ_DEFAULTS;
  // `delivery` comes first: after the spread, it would give every document its own hidden class.
  return read(text, checkService, (document) => ({
    delivery: deliveryOf(document),
    ...resolveDestination(guardFields(document), "service"),
  }));
}

function checkService(document: Fieldset): readonly FieldProblem[] {
  return [...checkDelivery(document), ...checkDestination(guardFields(document))];
}

/** The stored JSON value, for people; null if it is not JSON. */
export function parseStored(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Long enough to name the fields; the document itself may be large. */
const MAX_REASON_LENGTH = 300;

type Fieldset = Readonly<Record<string, unknown>>;

function read<T>(
  text: string,
  check: (document: Fieldset) => readonly FieldProblem[],
  resolve: (document: Fieldset) => T,
): Reading<T> {
  const stored = parseStored(text);
  if (!isObject(stored)) return unreadable("it is not a JSON object");
  const { document, unknown, problems } = withoutUnknown(stored, check);
  if (problems.length > 0) return unreadable(problems.map(({ message }) => message).join("; "));
  return { kind: "read", value: resolve(document), ignored: unknown.map(({ field }) => field) };
}

function unreadable(reason: string): Reading<never> {
  return { kind: "unreadable", reason: reason.slice(0, MAX_REASON_LENGTH) };
}

/** Why this version cannot read a stored document; null: it can. */
export function whyUnreadable(kind: "policy" | "destination", text: string): string | null {
  const reading = kind === "policy" ? readPolicy(text) : readDestination(text);
  return reading.kind === "unreadable" ? reading.reason : null;
}
