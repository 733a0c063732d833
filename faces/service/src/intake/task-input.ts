/**
 * Task input: validates a task as callers submit it and converts it to one that can be stored. The
 * HTTP API and the embedded service share it, so both accept the same input and report the same
 * errors.
 */
import {
  booleanRule,
  checkFields,
  DocumentError,
  type FieldProblem,
  type Fields,
  fieldProblem,
  numberRule,
  type PolicyDocument,
  quote,
  type Rule,
  textRule,
} from "@redrive/core";
import { BODY_LABEL, parseBodyRef } from "../bodies/blob-store.ts";
import type { BodySource } from "../bodies/bodies.ts";
import { BODY_FIELD, parseBasic } from "../deliver/broker-message.ts";
import type { BrokerPlace, RefusedTarget, Target } from "../deliver/target.ts";
import { destinationNameRule } from "../model/destination-row.ts";
import { serviceError } from "../model/errors.ts";
import { isPlainObject } from "../model/plain-object.ts";
import type { Headers, NewTask } from "../model/task.ts";
import { type HeadersInput, headerProblems } from "../model/task.ts";

export interface TaskInput extends BodyInput {
  readonly targetUrl: string;
  /** Default: POST. */
  readonly method?: string;
  /** An object, a `Headers`, a `Map`, or any iterable of `[name, value]` pairs. */
  readonly headers?: HeadersInput;
  /** A registered policy, or a preset. Default: `background`. */
  readonly policyId?: string;
  /** An inline policy instead. */
  readonly policy?: PolicyDocument;
  readonly idempotencyKey?: string;
  /** The destination whose guards apply. Default: the origin of the URL. */
  readonly destination?: string;
  /** False: an attempt that may have taken effect is not repeated. Default: true. */
  readonly idempotent?: boolean;
  /** No attempt before this instant; epoch ms. Default: now. */
  readonly scheduledAt?: number;
  /** No attempt ends after this instant; epoch ms. */
  readonly deadlineAt?: number;
  readonly labels?: Headers;
  readonly callbackUrl?: string;
}

/** An input whose headers are an object; `withPlainHeaders` makes it. */
export type PlainTaskInput = TaskInput & { readonly headers?: Headers };

const MAX_TEXT = 1024;

const MAX_SCHEDULE_MS = 365 * 86_400_000;
const MAX_INSTANT = Number.MAX_SAFE_INTEGER;

const METHODS = /^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|QUERY)$/;

const anything: Rule = () => undefined;

/** The service marks its own tasks with such labels, and nobody else can. */
const OWN_LABEL = /^redrive\./;

/** An object of strings, with names that match `pattern`. */
function labelsRule(pattern: RegExp, max: number): Rule {
  const wanted = `an object of at most ${max} strings`;
  return (value) => {
    if (!isPlainObject(value)) return wanted;
    const entries = Object.entries(value);
    if (entries.some(([name]) => OWN_LABEL.test(name))) return NO_OWN_LABELS;
    const isGood = ([name, text]: readonly [string, unknown]) =>
      pattern.test(name) && typeof text === "string" && isStorable(text);
    return entries.length <= max && entries.every(isGood) ? undefined : wanted;
  };
}

const NO_OWN_LABELS = "without names that begin with redrive., which the service sets itself";

/** Stores keep strings as UTF-8, and some cannot keep NUL. */
function isStorable(text: string): boolean {
  return text.length <= MAX_TEXT && !/[\0\r\n]|\p{Surrogate}/u.test(text);
}

const FIELDS: Fields & Readonly<Record<keyof TaskInput, unknown>> = {
  targetUrl: anything,
  method: textRule(METHODS, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS or QUERY"),
  headers: anything,
  body: anything,
  bodyBase64: anything,
  json: anything,
  bodyRef: anything,
  policyId: textRule(/^[\w.-]{1,64}$/, "1 to 64 characters of A-Z a-z 0-9 . _ -"),
  policy: anything,
  idempotencyKey: textRule(/^[\x21-\x7e]{1,255}$/, "1 to 255 visible ASCII characters"),
  destination: destinationNameRule,
  idempotent: booleanRule,
  scheduledAt: numberRule(0, MAX_INSTANT),
  deadlineAt: numberRule(0, MAX_INSTANT),
  labels: labelsRule(/^[\w.:/-]{1,64}$/, 32),
  callbackUrl: anything,
};

/** What the creation of a task needs besides its input. */
interface TaskContext {
  readonly tenantId: string;
  readonly taskId: string;
  readonly now: number;
  readonly policyId: string;
  readonly policyVersion: number;
  readonly checkTarget: (url: string) => Target | RefusedTarget;
}

/** All problems of an input, except those of its target. */
export function checkInput(input: unknown, now: number): readonly FieldProblem[] {
  const problems = checkFields(input, FIELDS, "", "the task");
  if (problems.length > 0) return problems;
  const task = input as TaskInput;
  const { scheduledAt = now, deadlineAt, policy, policyId } = task;
  if (scheduledAt > now + MAX_SCHEDULE_MS) {
    problems.push(fieldProblem("scheduledAt", scheduledAt, "scheduledAt must be within 365 days"));
  }
  if (deadlineAt !== undefined && deadlineAt <= Math.max(now, scheduledAt)) {
    problems.push(
      fieldProblem("deadlineAt", deadlineAt, "deadlineAt must be after now and scheduledAt"),
    );
  }
  if (policy !== undefined && policyId !== undefined) {
    problems.push(fieldProblem("policy", policy, "policy and policyId must not both be given"));
  }
  problems.push(...headerProblems(task.headers), ...bodyProblems(task));
  return problems;
}

/** Creates the task; throws `INVALID_ARGUMENT` or `TARGET_DENIED`. */
export function createTask(input: PlainTaskInput, making: TaskContext): NewTask {
  const { now } = making;
  const problems = checkInput(input, now);
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  const target = making.checkTarget(input.targetUrl);
  if (!target.ok) throw refusal(target, "targetUrl");
  const body = bodyOf(input);
  if (target.grpc !== undefined) assertGrpcInput(input);
  if (target.broker !== undefined) assertBrokerInput(input, body, target.broker.place);
  const callbackUrl = callbackOf(input, making);
  const { tenantId, taskId, policyId, policyVersion } = making;
  const task = {
    taskId,
    tenantId,
    idempotencyKey: input.idempotencyKey ?? null,
    destination: input.destination ?? target.origin,
    targetUrl: target.url,
    method: input.method ?? "POST",
    headers: headersOf(input),
    body,
    bodyRef: null,
    policyId,
    policyVersion,
    idempotent: input.idempotent ?? true,
    deadlineAt: input.deadlineAt ?? null,
    createdAt: now,
    scheduledAt: Math.max(now, input.scheduledAt ?? now),
    labels: input.labels === undefined ? NONE : { ...input.labels },
    callbackUrl,
    redrivenFrom: null,
  };
  return input.bodyRef === undefined ? task : withBodyRef(task, input.bodyRef);
}

/** Checked like a target, because the callback is sent to it. */
function callbackOf({ callbackUrl }: TaskInput, { checkTarget }: TaskContext): string | null {
  if (callbackUrl === undefined) return null;
  const callback = checkTarget(callbackUrl);
  if (!callback.ok) throw refusal(callback, "callbackUrl");
  if (callback.grpc === undefined && callback.broker === undefined) return callback.url;
  const message = "callbackUrl must begin with http:// or https://, because a callback is JSON";
  throw refusal({ ok: false, kind: "malformed", message }, "callbackUrl");
}

const NONE: Headers = Object.freeze({});
const JSON_TYPE: Headers = Object.freeze({ "content-type": "application/json" });

/** Copies, like the body's, so that the caller's later changes do not reach an attempt. */
export function headersOf({ headers = NONE, json }: PlainTaskInput): Headers {
  if (json === undefined) return { ...headers };
  const isTyped = Object.keys(headers).some((name) => name.toLowerCase() === "content-type");
  return isTyped ? { ...headers } : { ...JSON_TYPE, ...headers };
}

// Task body: the body of a new task in the forms that callers use, their check, and the bytes that
// they stand for.

/**
 * JSON as received. It is sent byte for byte: parsing and serializing it again would change numbers
 * that JavaScript cannot represent.
 */
export class RawJson {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

/** The forms of a body. At most one of them may be given. */
interface BodyInput {
  /**
   * Sent unchanged. A stream or another source of bytes is stored before the task is created; it is
   * read once.
   */
  readonly body?: string | Uint8Array | BodySource;
  readonly bodyBase64?: string;
  /** Sent as JSON, with that content type unless `headers` has one. */
  readonly json?: unknown;
  /** A body that this tenant has stored before: the `bodyRef` of another task or of an upload. */
  readonly bodyRef?: string;
}

function countGiven(values: readonly unknown[]): number {
  let given = 0;
  for (const value of values) if (value !== undefined) given++;
  return given;
}

/** No message quotes a payload, because it may contain secrets. */
function bodyProblems(input: BodyInput & { readonly method?: string }): readonly FieldProblem[] {
  const { method, body, bodyBase64, json, bodyRef } = input;
  const bodies = countGiven([body, bodyBase64, json, bodyRef]);
  if (bodies === 0) return [];
  if (bodies > 1)
    return [wrong("body", "only one of body, bodyBase64, json and bodyRef may be given")];
  if (method === "GET" || method === "HEAD") return [wrong("body", `${method} must have no body`)];
  if (bodyBase64 !== undefined && !isBase64(bodyBase64)) {
    return [wrong("bodyBase64", "bodyBase64 must be bytes in Base64")];
  }
  if (bodyRef !== undefined && (typeof bodyRef !== "string" || !parseBodyRef(bodyRef))) {
    const text = "bodyRef must be the bodyRef of a task or of an upload";
    return [fieldProblem("bodyRef", bodyRef, text)];
  }
  if (body === undefined || body instanceof Uint8Array || isBodySource(body)) return [];
  if (typeof body !== "string") return [wrong("body", "body must be a string; use json for JSON")];
  return /\p{Surrogate}/u.test(body)
    ? [wrong("body", "body must be valid Unicode; use bodyBase64 for other bytes")]
    : [];
}

/** A body that arrives in parts. */
export function isBodySource(body: unknown): body is BodySource {
  return typeof body === "object" && body !== null && Symbol.asyncIterator in body;
}

function isBase64(text: unknown): boolean {
  return typeof text === "string" && text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text);
}

function wrong(field: string, message: string): FieldProblem {
  return { field, value: undefined, message };
}

/** The task with a body in the blob store. By its label, the store knows that the blob is in use. */
function withBodyRef(task: NewTask, bodyRef: string): NewTask {
  const { blobId = "" } = parseBodyRef(bodyRef) ?? {};
  return { ...task, body: null, bodyRef, labels: { ...task.labels, [BODY_LABEL]: blobId } };
}

/** A body that arrives in parts is stored before; here it counts as none. */
function bodyOf({ body, bodyBase64, json }: BodyInput): Uint8Array | null {
  if (isBodySource(body)) return null;
  if (body instanceof Uint8Array) return Uint8Array.prototype.slice.call(body);
  if (body !== undefined) return Buffer.from(String(body), "utf8");
  if (bodyBase64 !== undefined) return Buffer.from(bodyBase64, "base64");
  if (json instanceof RawJson) return json.bytes;
  return json === undefined ? null : Buffer.from(JSON.stringify(json), "utf8");
}

// gRPC input: what a task with a gRPC target must fulfill in addition, so that a call that cannot
// be made is refused when it is created. No message quotes a value of the metadata, because it may
// be a secret.

/** The length of a message is a number of 32 bits. */
const MAX_GRPC_MESSAGE = 2 ** 32 - 1;

const NAME = /^[\w.-]+$/;
/** Visible ASCII and spaces, but none at the ends. */
const VALUE = /^$|^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const CONTENT_TYPE = /^application\/grpc(\+[\w.-]+)?$/i;

/** The part of a task that a gRPC target restricts. */
export interface GrpcInput {
  readonly method?: string;
  readonly headers?: Headers;
  readonly json?: unknown;
  readonly bodyRef?: string;
}

/** Throws `INVALID_ARGUMENT` for a task that cannot be sent as a gRPC call. */
export function assertGrpcInput(input: GrpcInput): void {
  const { method, json, bodyRef, headers = {} } = input;
  const problems: FieldProblem[] = [];
  if (method !== undefined && method !== "POST") {
    problems.push(fieldProblem("method", method, "method must be POST for a gRPC target"));
  }
  if (json !== undefined) problems.push(wrong("json", NO_JSON));
  const { length = 0 } = parseBodyRef(bodyRef ?? "") ?? {};
  if (length > MAX_GRPC_MESSAGE) {
    const text = `bodyRef must be at most ${MAX_GRPC_MESSAGE} bytes for a gRPC target, got ${length}`;
    problems.push(wrong("bodyRef", text));
  }
  problems.push(
    ...Object.entries(headers).flatMap(([name, value]) => metadataProblem(name, value)),
  );
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
}

const NO_JSON =
  "json cannot be sent to a gRPC target: encode the message and send it as body or bodyBase64";

function metadataProblem(name: string, value: string): readonly FieldProblem[] {
  const text = metadataText(name.toLowerCase(), value);
  return text === undefined ? [] : [wrong(`headers.${name}`, `header ${quote(name)} ${text}`)];
}

function metadataText(name: string, value: string): string | undefined {
  if (!NAME.test(name)) return "is not a name of gRPC metadata: use a-z 0-9 _ . and -";
  if (name.startsWith("grpc-")) return "is set by the service, not by a task";
  if (name === "content-type" && !CONTENT_TYPE.test(value)) {
    return `must be application/grpc or begin with application/grpc+ for a gRPC target, got ${quote(value)}`;
  }
  if (name.endsWith("-bin") && !BASE64.test(value)) return "must be bytes in Base64";
  return VALUE.test(value) ? undefined : "must be a string of visible ASCII characters";
}

// Broker input: what a task whose target is a broker must fulfill in addition, so that a message
// that cannot be published is refused when its task is created. No message quotes a header, because
// it may be a secret.

/** In bytes. A message is in memory while it is sent. */
export const MAX_BROKER_MESSAGE = 4 << 20;

/** Names of headers and properties in AMQP are at most this long. */
const MAX_SHORT_STRING = 255;

const PROPERTIES = new Set(["content-type", "content-encoding", "idempotency-key"]);

/** The part of a task that a broker restricts. */
export interface BrokerInput {
  readonly method?: string;
  readonly headers?: Headers;
  readonly bodyRef?: string;
}

/** Throws `INVALID_ARGUMENT` for a task that cannot be published. `body`: unless it has a `bodyRef`. */
export function assertBrokerInput(
  input: BrokerInput,
  body: Uint8Array | null,
  { kind }: BrokerPlace,
): void {
  const { method, headers = {} } = input;
  const problems: FieldProblem[] = [];
  if (method !== undefined && method !== "POST") {
    problems.push(fieldProblem("method", method, "method must be POST for a message"));
  }
  problems.push(...lengthProblems(input, body));
  for (const [name, value] of Object.entries(headers)) {
    const text = headerText(name.toLowerCase(), value, kind);
    if (text === undefined) continue;
    problems.push(wrong(`headers.${name}`, `header ${quote(name)} ${text}`));
  }
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
}

function lengthProblems(
  { bodyRef }: BrokerInput,
  body: Uint8Array | null,
): readonly FieldProblem[] {
  const { length = body?.length ?? 0 } = parseBodyRef(bodyRef ?? "") ?? {};
  if (length <= MAX_BROKER_MESSAGE) return [];
  const field = bodyRef === undefined ? "body" : "bodyRef";
  return [
    wrong(
      field,
      `${field} must be at most ${MAX_BROKER_MESSAGE} bytes for a message, got ${length}`,
    ),
  ];
}

function headerText(name: string, value: string, kind: BrokerPlace["kind"]): string | undefined {
  if (name === "authorization") return parseBasic(value) === null ? NO_LOGIN : undefined;
  if (kind === "redis-stream") return name === BODY_FIELD ? NO_BODY_FIELD : undefined;
  if (name.length > MAX_SHORT_STRING)
    return `must have a name of at most ${MAX_SHORT_STRING} bytes`;
  const isLong = Buffer.byteLength(value) > MAX_SHORT_STRING;
  if (PROPERTIES.has(name) && isLong) return `must be at most ${MAX_SHORT_STRING} bytes in AMQP`;
  return undefined;
}

const NO_LOGIN =
  'must be "Basic" and the Base64 of user:password, without control characters, for a broker';
const NO_BODY_FIELD = "cannot be sent, because the field of that name has the body";

/** What messages call the URL of each field. */
const URL_NOUNS = {
  targetUrl: "target",
  callbackUrl: "callback",
  deadLetterUrl: "dead letter target",
} as const;

type UrlField = keyof typeof URL_NOUNS;

/** The error for a URL of a document that the operator does not allow, or that is malformed. */
export function refusal({ kind, message }: RefusedTarget, field: UrlField): Error {
  const text = message.replace(/^(target(Url)?)\b/, (word) =>
    word === "target" ? URL_NOUNS[field] : field,
  );
  return kind === "denied"
    ? serviceError("TARGET_DENIED", text)
    : new DocumentError("INVALID_ARGUMENT", [{ field, value: undefined, message: text }]);
}
