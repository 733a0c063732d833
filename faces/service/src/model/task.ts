/**
 * Task: a request that the service promises to deliver, and the log of its attempts, as stored and
 * read back. Plain data: absent values are null, so that every store keeps them alike.
 */
import {
  type DelaySource,
  DocumentError,
  type FieldProblem,
  type HoldReason,
  isObject,
  quote,
  type StopReason,
} from "@redrive/core";
import { serviceError } from "./errors.ts";
import { isPlainObject } from "./plain-object.ts";

/** The tenant of a call that names none. An embedding process has only this tenant. */
export const DEFAULT_TENANT = "default";

export type TaskStatus = "PENDING" | "IN_FLIGHT" | "SUCCEEDED" | "EXHAUSTED" | "CANCELLED";

/** The states that a task never leaves. */
export type EndedStatus = Exclude<TaskStatus, "PENDING" | "IN_FLIGHT">;

/**
 * The lane of a destination in which a task waits. First attempts and retries are separate, so that
 * an empty retry budget never blocks first attempts. `suspect` is for a task whose claims were
 * abandoned twice: a node runs one of them at a time.
 */
export type Lane = "first" | "retry" | "suspect";

export const LANES: readonly Lane[] = ["first", "retry", "suspect"];

export const TASK_STATUSES: readonly TaskStatus[] = [
  "PENDING",
  "IN_FLIGHT",
  "SUCCEEDED",
  "EXHAUSTED",
  "CANCELLED",
];

export type Headers = Readonly<Record<string, string>>;

/** The part of a task that never changes. */
export interface NewTask {
  /** UUIDv7, so that tasks sort by age. Its instant is `createdAt` or slightly later. */
  readonly taskId: string;
  readonly tenantId: string;
  /** As the caller sent it; null: the target receives the `taskId`. */
  readonly idempotencyKey: string | null;
  readonly destination: string;
  readonly targetUrl: string;
  readonly method: string;
  readonly headers: Headers;
  /** Inline bytes; null if there are none or they are at `bodyRef`. */
  readonly body: Uint8Array | null;
  readonly bodyRef: string | null;
  readonly policyId: string;
  readonly policyVersion: number;
  /** False: an attempt with an unknown outcome is not repeated. */
  readonly idempotent: boolean;
  /** No attempt may end after this instant. */
  readonly deadlineAt: number | null;
  readonly createdAt: number;
  /** The first attempt is not made earlier, and the total time budget starts here. */
  readonly scheduledAt: number;
  readonly labels: Headers;
  readonly callbackUrl: string | null;
  readonly redrivenFrom: string | null;
}

/** The part of a task that attempts change. */
export interface TaskState {
  readonly status: TaskStatus;
  readonly reason: StopReason | null;
  readonly lane: Lane;
  /** Attempts started so far, including the one in progress. */
  readonly attemptNumber: number;
  readonly nextAttemptAt: number;
  /** Incremented by every claim and settle; a write with an older value is rejected. */
  readonly claimEpoch: number;
  /** The boot of the node that runs the attempt, and since when; null unless IN_FLIGHT. */
  readonly claimedBy: string | null;
  readonly claimedAt: number | null;
  /** The policy's latest delay: `previousDelayMs` of the next decision. */
  readonly lastDelayMs: number;
  /** Consecutive claims that were abandoned without an outcome. */
  readonly abandonedCount: number;
  readonly cancelRequestedAt: number | null;
  readonly lastStatus: number | null;
  readonly lastError: string | null;
  readonly redrivenTo: string | null;
  readonly finishedAt: number | null;
}

export type RetryTask = NewTask & TaskState;

/** One attempt, written when it is settled. */
export interface AttemptLog {
  readonly attemptNumber: number;
  readonly startedAt: number;
  readonly durationMs: number;
  readonly phases: AttemptPhases | null;
  /** The kind of core's `Outcome`. */
  readonly outcome: string;
  readonly responseStatus: number | null;
  readonly errorClass: string | null;
  readonly errorMessage: string | null;
  /** Allowlisted and redacted. */
  readonly responseHeaders: Headers | null;
  /** Truncated and redacted. */
  readonly responseBody: Uint8Array | null;
  /** The delay that followed; null after the last attempt. */
  readonly nextDelayMs: number | null;
  /** The source of that delay: `policy`, `retry-after`, or the guard that held the task. */
  readonly delaySource: string | null;
  /**
   * As stored: the waits after the attempt was due. As read through `Redrive.attempts`: also the wait
   * for the due instant, which the previous attempt has as `nextDelayMs`. Oldest first.
   */
  readonly waits: readonly AttemptWait[];
}

/** `late`: no guard held the attempt, but no node started it: the service was down, slow or full. */
export type WaitCause = DelaySource | HoldReason | "late";

/** A time in which the attempt waited for one cause. */
export interface AttemptWait {
  readonly cause: WaitCause;
  readonly sinceAt: number;
  readonly durationMs: number;
}

/** An attempt that started on time has no waits. One object, so that it costs nothing. */
export const NO_WAITS: readonly AttemptWait[] = [];

/** A shorter delay after the due instant is not recorded as a wait. */
export const MIN_WAIT_MS = 100;

/** The stored form of waits, in stores without lists. Null: the attempt started on time, or an older version wrote it. */
export function waitsText(waits: readonly AttemptWait[]): string | null {
  if (waits.length === 0) return null;
  return JSON.stringify(
    waits.map(({ cause, sinceAt, durationMs }) => [cause, sinceAt, durationMs]),
  );
}

export function readWaits(text: string | null | undefined): readonly AttemptWait[] {
  if (text === null || text === undefined) return NO_WAITS;
  const rows = JSON.parse(text) as readonly (readonly [WaitCause, number, number])[];
  return rows.map(([cause, sinceAt, durationMs]) => ({ cause, sinceAt, durationMs }));
}

/** Durations within an attempt; null for a phase that did not happen or was not measured. */
export interface AttemptPhases {
  readonly dnsMs: number | null;
  readonly connectMs: number | null;
  readonly tlsMs: number | null;
  readonly firstByteMs: number | null;
}

export function isEnded(status: TaskStatus): status is EndedStatus {
  return status !== "PENDING" && status !== "IN_FLIGHT";
}

/** A task that so many claims in a row have left without an outcome is a suspect. */
export const SUSPECT_ABANDONED = 2;

/** The lane in which a task waits for its next attempt. */
export function laneOf(attemptsMade: number, abandonedCount: number): Lane {
  if (abandonedCount >= SUSPECT_ABANDONED) return "suspect";
  return attemptsMade === 0 ? "first" : "retry";
}

/** The instants that a task id can hold. */
const MAX_INSTANT = 2 ** 48 - 1;

/** The start of every task id of that instant; it sorts after all ids of earlier instants. */
export function taskIdPrefix(instant: number): string {
  const clamped = Math.min(Math.max(Math.floor(instant), 0), MAX_INSTANT);
  const time = clamped.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}`;
}

// Task headers: the headers that a task may have, those that a delivery adds, and the count of hops.

// Loop detection: counts how many Redrive services a request has passed through, to detect services
// that send tasks to each other in a loop. The count is stored in a task header with a reserved name.

export const HOP_HEADER = "redrive-hop";

/** More than any intended chain needs. */
const MAX_HOPS = 3;

/** The number of hops in the headers; 0 if the request comes from no Redrive service. */
export function hopsOf(headers: Readonly<Record<string, unknown>>): number {
  const text = headers[HOP_HEADER];
  return typeof text === "string" && /^\d{1,9}$/.test(text) ? Number(text) : 0;
}

/** Like `hopsOf`, but throws `LOOP_DETECTED` above the maximum. */
export function assertNoLoop(headers: Readonly<Record<string, unknown>>): number {
  const hops = hopsOf(headers);
  if (hops <= MAX_HOPS) return hops;
  const text = `the request has passed through ${hops} Redrive services, the limit is ${MAX_HOPS}`;
  throw serviceError("LOOP_DETECTED", `${text}: does the target send its task back in a loop?`);
}

/** Adds the number of hops to a task; 0 adds nothing. */
export function withHops(task: NewTask, hops: number): NewTask {
  return hops === 0 ? task : { ...task, headers: { ...task.headers, [HOP_HEADER]: String(hops) } };
}

/** The headers as the caller sent them. */
export function withoutHops(headers: Headers): Headers {
  if (!(HOP_HEADER in headers)) return headers;
  const { [HOP_HEADER]: _, ...given } = headers;
  return given;
}

// Headers input: converts the headers of a task from the forms that programs use (`Headers`, `Map`,
// lists of pairs) to a plain object. Such objects have no fields of their own, so a copy or JSON of
// them would lose every header. No message quotes a value, because it may be a secret.

/** An object of strings, a `Headers`, a `Map`, or any iterable of `[name, value]` pairs. */
export type HeadersInput = Headers | Iterable<readonly [string, string]>;

/** The input with headers that are an object, unless they have none of the accepted forms. */
export function withPlainHeaders<T extends { readonly headers?: HeadersInput }>(
  input: T,
): T & { readonly headers?: Headers } {
  const headers: unknown = isObject(input) ? input.headers : undefined;
  const plain = isIterable(headers) ? { ...input, headers: headersFrom(headers) } : input;
  return plain as T & { readonly headers?: Headers };
}

function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.iterator in value;
}

function headersFrom(pairs: Iterable<unknown>): Headers {
  const headers = new Map<string, string>();
  for (const pair of pairs) {
    const [name, value] = Array.isArray(pair) && pair.length === 2 ? pair : [];
    if (typeof name !== "string" || typeof value !== "string") {
      throw refused(`headers must be [name, value] pairs of strings, got ${shapeOf(pair)}`);
    }
    if (headers.has(name)) throw refused(`header ${JSON.stringify(name)} is given twice`);
    headers.set(name, value);
    // An endless iterable must end.
    if (headers.size > MAX_HEADERS) throw refused(`headers must be at most ${MAX_HEADERS}`);
  }
  return Object.fromEntries(headers);
}

/** The types of a value, without its content: `[string, number]`. */
function shapeOf(value: unknown): string {
  if (!Array.isArray(value)) return value === null ? "null" : typeof value;
  return `[${value.slice(0, 4).map(shapeOf).join(", ")}]`;
}

function refused(message: string): Error {
  return new DocumentError("INVALID_ARGUMENT", [{ field: "headers", value: undefined, message }]);
}

// Task headers: validates the headers of a new task, so that a header that cannot be sent is
// rejected now and not at the attempt. No message quotes a value, because it may be a secret.

const MAX_HEADERS = 100;
const MAX_BYTES = 16_384;
const NAME = /^[!#$%&'*+.^_`|~\w-]{1,256}$/;
/** Latin1 without control characters except tab: what an HTTP/1.1 field can hold. */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Headers of the connection (RFC 9110 7.6.1), those that the client writes, and Redrive's own. */
const RESERVED =
  /^(connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|host|content-length|proxy-.*|redrive-.*|webhook-(id|timestamp|signature))$/;

/** Headers that hold no secrets. All others are masked in responses and encrypted in the store. */
const HARMLESS = new Set([
  "accept",
  "accept-language",
  "cache-control",
  "content-language",
  "content-type",
  "date",
  "if-match",
  "if-none-match",
  HOP_HEADER,
  "traceparent",
  "user-agent",
  "webhook-id",
  "x-request-id",
]);

export function isHarmlessHeader(name: string): boolean {
  return HARMLESS.has(name.toLowerCase());
}

/** All problems of a task's headers. */
export function headerProblems(headers: unknown): readonly FieldProblem[] {
  if (headers === undefined) return [];
  if (!isPlainObject(headers)) return [wrong("headers", `${WANTED}, got ${kindOf(headers)}`)];
  const entries = Object.entries(headers);
  if (entries.length > MAX_HEADERS) {
    return [wrong("headers", `headers must be at most ${MAX_HEADERS}, got ${entries.length}`)];
  }
  const problems = entries.flatMap(([name, value]) => headerProblem(name, value) ?? []);
  return problems.length > 0 ? problems : togetherProblems(entries as [string, string][]);
}

const WANTED = "headers must be an object of strings, a Headers, a Map or pairs";

function kindOf(value: unknown): string {
  if (value === null || typeof value !== "object") return value === null ? "null" : typeof value;
  return Array.isArray(value) ? "a list" : String(value.constructor?.name ?? "an object");
}

function headerProblem(name: string, value: unknown): FieldProblem | undefined {
  const field = `headers.${name.slice(0, 64)}`;
  if (!NAME.test(name)) return wrong(field, `header ${quote(name)} is not a valid header name`);
  if (RESERVED.test(name.toLowerCase())) {
    return wrong(field, `header ${quote(name)} is set by the service, not by a task`);
  }
  if (typeof value === "string" && VALUE.test(value)) return undefined;
  return wrong(field, `header ${quote(name)} must be a string of visible latin1 characters`);
}

/** Problems of the headers as a whole. */
function togetherProblems(
  entries: readonly (readonly [string, string])[],
): readonly FieldProblem[] {
  let bytes = 0;
  const names = new Set<string>();
  for (const [name, value] of entries) {
    bytes += name.length + value.length;
    const lower = name.toLowerCase();
    if (names.has(lower)) return [wrong(`headers.${name}`, `header ${quote(name)} is given twice`)];
    names.add(lower);
  }
  return bytes <= MAX_BYTES
    ? []
    : [wrong("headers", `headers must be at most ${MAX_BYTES} bytes in total, got ${bytes}`)];
}

function wrong(field: string, message: string): FieldProblem {
  return { field, value: undefined, message };
}
