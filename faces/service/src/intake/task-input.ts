/**
 * Task input: a task as people hand it over, checked and made into one that can be stored. The HTTP
 * front and the embedded form take the same, and refuse the same in the same words.
 */
import {
  booleanRule,
  checkFields,
  DocumentError,
  type FieldProblem,
  type Fields,
  fieldProblem,
  isObject,
  numberRule,
  type PolicyDocument,
  type Rule,
  textRule,
} from "@redrive/core";
import type { RefusedTarget, Target } from "../deliver/address-guard/target.ts";
import { serviceError } from "../model/errors.ts";
import type { Headers, NewTask } from "../model/task.ts";
import { headerProblems } from "../model/task-headers.ts";

/**
 * JSON as it was received. It is sent byte for byte: parsing and spelling it again would change
 * numbers that JavaScript cannot hold.
 */
export class RawJson {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

export interface TaskInput {
  readonly targetUrl: string;
  /** Default: POST. */
  readonly method?: string;
  readonly headers?: Headers;
  /** Sent as it is. At most one of `body`, `bodyBase64` and `json`. */
  readonly body?: string | Uint8Array;
  readonly bodyBase64?: string;
  /** Sent as JSON, with that content type unless `headers` has one. */
  readonly json?: unknown;
  /** A registered policy, or a preset. Default: `background`. */
  readonly policyId?: string;
  /** A policy of its own instead. */
  readonly policy?: PolicyDocument;
  readonly idempotencyKey?: string;
  /** What it contends for. Default: the origin of the URL. */
  readonly destination?: string;
  /** False: an attempt that may have taken effect is not repeated. Default: true. */
  readonly idempotent?: boolean;
  /** Not before this instant; epoch ms. Default: now. */
  readonly scheduledAt?: number;
  /** No attempt ends after this instant; epoch ms. */
  readonly deadlineAt?: number;
  readonly labels?: Headers;
  readonly callbackUrl?: string;
}

/** Larger bodies belong into the blob store. */
export const MAX_INLINE_BODY = 65_536;

const MAX_TEXT = 1024;

const MAX_SCHEDULE_MS = 365 * 86_400_000;
const MAX_INSTANT = Number.MAX_SAFE_INTEGER;

const METHODS = /^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$/;

const anything: Rule = () => undefined;

/** An object of texts, with names that `pattern` allows. */
function textsRule(pattern: RegExp, max: number): Rule {
  const wanted = `an object of at most ${max} texts`;
  return (value) => {
    if (!isObject(value)) return wanted;
    const entries = Object.entries(value);
    const isGood = ([name, text]: readonly [string, unknown]) =>
      pattern.test(name) && typeof text === "string" && isStorable(text);
    return entries.length <= max && entries.every(isGood) ? undefined : wanted;
  };
}

/** Stores keep texts as UTF-8, and not all of them keep NUL. */
function isStorable(text: string): boolean {
  return text.length <= MAX_TEXT && !/[\0\r\n]|\p{Surrogate}/u.test(text);
}

const FIELDS: Fields & Readonly<Record<keyof TaskInput, unknown>> = {
  targetUrl: anything,
  method: textRule(METHODS, "GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"),
  headers: anything,
  body: anything,
  bodyBase64: anything,
  json: anything,
  policyId: textRule(/^[\w.-]{1,64}$/, "1 to 64 characters of A-Z a-z 0-9 . _ -"),
  policy: anything,
  idempotencyKey: textRule(/^[\x21-\x7e]{1,255}$/, "1 to 255 visible ASCII characters"),
  destination: textRule(/^[\x21-\x7e]{1,255}$/, "1 to 255 visible ASCII characters"),
  idempotent: booleanRule,
  scheduledAt: numberRule(0, MAX_INSTANT),
  deadlineAt: numberRule(0, MAX_INSTANT),
  labels: textsRule(/^[\w.:/-]{1,64}$/, 32),
  callbackUrl: anything,
};

/** What making a task needs besides its input. */
export interface TaskContext {
  readonly tenantId: string;
  readonly taskId: string;
  readonly now: number;
  readonly policyId: string;
  readonly policyVersion: number;
  readonly checkTarget: (url: string) => Target | RefusedTarget;
}

/** Everything wrong with an input that can be told without looking at its target. */
export function checkInput(input: unknown, now: number): readonly FieldProblem[] {
  const problems = checkFields(input, FIELDS);
  if (problems.length > 0) return problems;
  const { scheduledAt = now, deadlineAt, policy, policyId, ...rest } = input as TaskInput;
  if (scheduledAt > now + MAX_SCHEDULE_MS) {
    problems.push(fieldProblem("scheduledAt", scheduledAt, "scheduledAt must be within 365 days"));
  }
  if (deadlineAt !== undefined && deadlineAt <= Math.max(now, scheduledAt)) {
    problems.push(
      fieldProblem("deadlineAt", deadlineAt, "deadlineAt must be after now and scheduledAt"),
    );
  }
  if (policy !== undefined && policyId !== undefined) {
    problems.push(fieldProblem("policy", policy, "policy must be left out when policyId is given"));
  }
  problems.push(...headerProblems(rest.headers), ...bodyProblems(rest));
  return problems;
}

/** No message quotes a payload: it may hold secrets. */
function bodyProblems({ method, body, bodyBase64, json }: TaskInput): readonly FieldProblem[] {
  const bodies = [body, bodyBase64, json].filter((one) => one !== undefined);
  if (bodies.length === 0) return [];
  if (bodies.length > 1)
    return [wrong("body", "only one of body, bodyBase64 and json may be given")];
  if (method === "GET" || method === "HEAD") return [wrong("body", `${method} must have no body`)];
  if (bodyBase64 !== undefined && !isBase64(bodyBase64)) {
    return [wrong("bodyBase64", "bodyBase64 must be bytes in Base64")];
  }
  if (body === undefined || body instanceof Uint8Array) return [];
  if (typeof body !== "string") return [wrong("body", "body must be a text; use json for JSON")];
  return /\p{Surrogate}/u.test(body)
    ? [wrong("body", "body must be legal Unicode; use bodyBase64 for other bytes")]
    : [];
}

function isBase64(text: unknown): boolean {
  return typeof text === "string" && text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text);
}

function wrong(field: string, message: string): FieldProblem {
  return { field, value: undefined, message };
}

/** The task that an input asks for; throws `INVALID_ARGUMENT` or `TARGET_DENIED`. */
export function createTask(input: TaskInput, making: TaskContext): NewTask {
  const { now } = making;
  const problems = [...checkInput(input, now)];
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  const target = making.checkTarget(input.targetUrl);
  if (!target.ok) throw refusal(target, "targetUrl");
  const callbackUrl = callbackOf(input, making);
  const body = bodyOf(input);
  if (body !== null && body.length > MAX_INLINE_BODY) {
    const text = `the body must be at most ${MAX_INLINE_BODY} bytes, got ${body.length}`;
    throw new DocumentError("INVALID_ARGUMENT", [wrong("body", text)]);
  }
  const { tenantId, taskId, policyId, policyVersion } = making;
  return {
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
}

/** Judged as a target, which it will be. */
function callbackOf({ callbackUrl }: TaskInput, { checkTarget }: TaskContext): string | null {
  if (callbackUrl === undefined) return null;
  const callback = checkTarget(callbackUrl);
  if (!callback.ok) throw refusal(callback, "callbackUrl");
  return callback.url;
}

type UrlField = "targetUrl" | "callbackUrl";

function refusal({ kind, message }: RefusedTarget, field: UrlField): Error {
  const text = message.replace(/^(target(Url)?)\b/, (word) => {
    if (field === "targetUrl") return word;
    return word === "target" ? "callback" : "callbackUrl";
  });
  return kind === "denied"
    ? serviceError("TARGET_DENIED", text)
    : new DocumentError("INVALID_ARGUMENT", [wrong(field, text)]);
}

const NONE: Headers = Object.freeze({});
const JSON_TYPE: Headers = Object.freeze({ "content-type": "application/json" });

/** Copies, like the body's: what the caller does to its own afterwards must not reach an attempt. */
function headersOf({ headers = NONE, json }: TaskInput): Headers {
  if (json === undefined) return { ...headers };
  const isTyped = Object.keys(headers).some((name) => name.toLowerCase() === "content-type");
  return isTyped ? { ...headers } : { ...JSON_TYPE, ...headers };
}

function bodyOf({ body, bodyBase64, json }: TaskInput): Uint8Array | null {
  if (body instanceof Uint8Array) return Uint8Array.prototype.slice.call(body);
  if (body !== undefined) return Buffer.from(String(body), "utf8");
  if (bodyBase64 !== undefined) return Buffer.from(bodyBase64, "base64");
  if (json instanceof RawJson) return json.bytes;
  return json === undefined ? null : Buffer.from(JSON.stringify(json), "utf8");
}

/** Headers that may differ between two requests for the same thing. */
const VOLATILE_HEADERS = /^(traceparent|tracestate|baggage|date|x-request-id|idempotency-key)$/i;

/** What a key stands for: two requests with one key must agree in all of it. */
export function fingerprintParts(task: NewTask): readonly (string | Uint8Array)[] {
  const headers = Object.entries(task.headers)
    .filter(([name]) => !VOLATILE_HEADERS.test(name))
    .map(([name, value]) => `${name.toLowerCase()}:${value}`)
    .sort();
  const text = JSON.stringify([task.method, task.targetUrl, task.policyId, headers]);
  return task.body === null ? [text] : [text, task.body];
}
