/**
 * Exported task: parses and validates a line of `redrive export`. The error for an invalid line
 * names the first wrong field.
 */
import { causedError, isObject, quote, RedriveError } from "@redrive/core";

/** The fields that an import needs. Other fields of a line are ignored. */
export interface ExportedTask {
  readonly taskId: string;
  readonly status: string;
  readonly targetUrl: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly destination: string;
  readonly idempotent: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly policyId: string;
  readonly idempotencyKey: string | null;
  readonly nextAttemptAt: number | null;
  readonly deadlineAt: number | null;
  readonly callbackUrl: string | null;
  readonly body: string | undefined;
  readonly bodyBase64: string | undefined;
  /** Null or absent in exports of tasks without a large body. */
  readonly bodyRef: string | null | undefined;
  /** An inline policy, which exists only in the task. */
  readonly policy: object | undefined;
}

/** Throws `INVALID_IMPORT` with the wrong field and its value. */
export function parseExportedTask(line: string): ExportedTask {
  const exported = parseJson(line);
  const task = readField(exported, "task", isObject, "an object");
  const read = <T>(name: string, is: Is<T>, wanted: string) =>
    readField(task, name, is, wanted, "task.");
  const text = (name: string) => read(name, isText, "text");
  const textOrNull = (name: string) => read(name, orNull(isText), "text or null");
  const instantOrNull = (name: string) => read(name, orNull(isInteger), "a whole number or null");
  const optionalText = (name: string) => read(name, orAbsent(isText), "text");
  const texts = (name: string) => read(name, isTextRecord, "an object of texts");
  return {
    taskId: text("taskId"),
    status: text("status"),
    targetUrl: text("targetUrl"),
    method: text("method"),
    headers: texts("headers"),
    destination: text("destination"),
    idempotent: read("idempotent", isBoolean, "true or false"),
    labels: texts("labels"),
    policyId: text("policyId"),
    idempotencyKey: textOrNull("idempotencyKey"),
    nextAttemptAt: instantOrNull("nextAttemptAt"),
    deadlineAt: instantOrNull("deadlineAt"),
    callbackUrl: textOrNull("callbackUrl"),
    body: optionalText("body"),
    bodyBase64: optionalText("bodyBase64"),
    bodyRef: read("bodyRef", orAbsent(orNull(isText)), "text or null"),
    policy: readField(exported, "policy", orAbsent(isObject), "an object"),
  };
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw causedError("INVALID_IMPORT", `must be JSON, got ${quote(line)}`, cause);
  }
}

type Is<T> = (value: unknown) => value is T;

const isText: Is<string> = (value) => typeof value === "string";
const isBoolean: Is<boolean> = (value) => typeof value === "boolean";
const isInteger: Is<number> = (value): value is number => Number.isSafeInteger(value);
const isTextRecord: Is<Readonly<Record<string, string>>> = (
  value,
): value is Readonly<Record<string, string>> =>
  isObject(value) && Object.values(value).every(isText);

function orNull<T>(is: Is<T>): Is<T | null> {
  return (value): value is T | null => value === null || is(value);
}

function orAbsent<T>(is: Is<T>): Is<T | undefined> {
  return (value): value is T | undefined => value === undefined || is(value);
}

function readField<T>(from: unknown, name: string, is: Is<T>, wanted: string, prefix = ""): T {
  const value = isObject(from) && Object.hasOwn(from, name) ? from[name] : undefined;
  if (is(value)) return value;
  const text = `${prefix}${name} must be ${wanted}, got ${quote(value)}`;
  throw new RedriveError("INVALID_IMPORT", text);
}
