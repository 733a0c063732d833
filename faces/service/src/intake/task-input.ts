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
  type Rule,
  textRule,
} from "@redrive/core";
import type { RefusedTarget, Target } from "../deliver/address-guard/target.ts";
import { destinationNameRule } from "../model/destination-name.ts";
import type { HeadersInput } from "../model/headers-input.ts";
import { isPlainObject } from "../model/plain-object.ts";
import type { Headers, NewTask } from "../model/task.ts";
import { headerProblems } from "../model/task-headers.ts";
import { assertBrokerInput } from "./targets/broker-input.ts";
import { assertGrpcInput } from "./targets/grpc-input.ts";
import { refusal } from "./targets/refused-url.ts";
import { type BodyInput, bodyOf, bodyProblems, withBodyRef } from "./task-body.ts";

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

const METHODS = /^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$/;

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
  method: textRule(METHODS, "GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"),
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
export interface TaskContext {
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
