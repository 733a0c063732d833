/**
 * Destination health: the state of a destination, from the row that all nodes share, the guards of
 * this node, and the counts of its tasks.
 */

import { createHash } from "node:crypto";
import {
  type Admission,
  adaptiveRateReadyAt,
  type BreakerState,
  budgetAllows,
  concurrencyLimit,
  DocumentError,
  type Guards,
  isObject,
  quantileMs,
  rateReadyAt,
} from "@redrive/core";
import type { HeldLane } from "../engine/lanes.ts";
import { type Secrets, signingContext } from "../intake/secrets.ts";
import {
  type DisabledTarget,
  deliveryOf,
  disabledIn,
  SECRET_PLACEHOLDER,
  type ServiceDocument,
  withDisabled,
} from "../model/delivery/delivery-settings.ts";
import { parseStored, readDestination } from "../model/stored-documents.ts";
import type { StoredDestinationState, TaskCounts } from "../model/task-query.ts";
import type { RecentAttempts } from "./activity.ts";

export interface DestinationHealth {
  readonly name: string;
  /** As configured, with placeholders for signing secrets; null: all defaults. */
  readonly document: ServiceDocument | null;
  /** Why this version cannot read the document, so that its tasks are held; null: it can. */
  readonly unreadable: string | null;
  readonly pausedAt: number | null;
  /** Target URLs that responded 410 (`disableOnGone`). */
  readonly disabledTargets: readonly DisabledTarget[];
  /** No call before this instant (Retry-After); 0: no gate. */
  readonly gateUntil: number;
  readonly breakerState: BreakerState;
  readonly openUntil: number;
  /** The rate allows no call before this instant; 0: no limit, or a call is allowed now. */
  readonly rateUntil: number;
  readonly retryBudget: "off" | "empty" | "open";
  readonly concurrency: { readonly inFlight: number; readonly limit: number } | null;
  /** Of this node's calls; null: none yet. */
  readonly latency: { readonly p50Ms: number; readonly p99Ms: number } | null;
  /** Attempts of the last five minutes on this node. Without the HTTP API, none are counted. */
  readonly recent: RecentAttempts;
  /** Tasks by status, without zeros. */
  readonly tasks: TaskCounts;
  /** Waiting and in flight. */
  readonly backlog: number;
  /** When the first waiting task is due; null: none waits. */
  readonly nextDueAt: number | null;
  /** The due tasks that a guard holds on this node, by lane. */
  readonly held: readonly HeldLane[];
}

export interface DestinationHealthPage {
  readonly destinations: readonly DestinationHealth[];
  /** Null on the last page. A page may be short or empty before. */
  readonly cursor: string | null;
}

/** What this node knows about a destination besides its guards. */
interface NodeFacts {
  readonly held: readonly HeldLane[];
  readonly recent: RecentAttempts;
}

export function healthOfDestination(
  { row, tasks, nextDueAt }: StoredDestinationState,
  { guards }: Admission,
  now: number,
  { held, recent }: NodeFacts,
): DestinationHealth {
  const { name, pausedAt, gateUntil, breakerState, openUntil } = row;
  const document = shownDocument(row.document) as ServiceDocument | null;
  const reading = readDestination(row.document);
  return {
    name,
    document,
    unreadable: reading.kind === "unreadable" ? reading.reason : null,
    pausedAt,
    disabledTargets: disabledTargetsOf(row.document),
    gateUntil,
    breakerState,
    openUntil,
    rateUntil: rateUntilOf(guards, now),
    retryBudget: budgetOf(guards, now),
    // Without a limit, slots are counted only to let calls follow a gate one by one.
    concurrency: document?.concurrency === false ? null : slotsOf(guards),
    latency: latencyOf(guards, now),
    recent,
    tasks,
    backlog: (tasks.PENDING ?? 0) + (tasks.IN_FLIGHT ?? 0),
    nextDueAt,
    held,
  };
}

function rateUntilOf({ rate, adaptiveRate }: Guards, now: number): number {
  const fixedAt = rate ? rateReadyAt(rate, now) : now;
  const readyAt = Math.max(fixedAt, adaptiveRate ? adaptiveRateReadyAt(adaptiveRate, now) : now);
  return readyAt > now ? readyAt : 0;
}

function budgetOf({ retryBudget }: Guards, now: number): DestinationHealth["retryBudget"] {
  if (retryBudget === undefined) return "off";
  return budgetAllows(retryBudget, now, false) ? "open" : "empty";
}

function slotsOf({ concurrency }: Guards): DestinationHealth["concurrency"] {
  if (concurrency === undefined) return null;
  return { inFlight: concurrency.inFlight, limit: concurrencyLimit(concurrency) };
}

function latencyOf({ latency }: Guards, now: number): DestinationHealth["latency"] {
  const p50Ms = quantileMs(latency, now, 0.5);
  const p99Ms = quantileMs(latency, now, 0.99);
  return p50Ms === undefined || p99Ms === undefined ? null : { p50Ms, p99Ms };
}

// Delivery document: stores the delivery settings of a destination document, and shows them again.
// Signing secrets are encrypted before they are stored, and are never shown: a view has a
// placeholder for each, and a document with that placeholder keeps the stored secret.

type Fieldset = Readonly<Record<string, unknown>>;

const DIGITS = 8;

interface DocumentPlace {
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
  throw refused(
    `${text} encryptionKey (REDRIVE_ENCRYPTION_KEY; create one with \`openssl rand -base64 32\`)`,
  );
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

function disabledTargetsOf(text: string | null): readonly DisabledTarget[] {
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
