/**
 * Broker input: what a task whose target is a broker must fulfill in addition, so that a message that
 * cannot be published is refused when its task is created. No message quotes a header, because it may be
 * a secret.
 */
import { DocumentError, type FieldProblem, fieldProblem, quote } from "@redrive/core";
import { parseBodyRef } from "../../bodies/body-ref.ts";
import type { BrokerPlace } from "../../deliver/address-guard/broker-target.ts";
import { BODY_FIELD } from "../../deliver/brokers/redis/add-command.ts";
import { parseBasic } from "../../deliver/brokers/session/broker-login.ts";
import type { Headers } from "../../model/task.ts";

/** In bytes. A message is in memory while it is sent. */
export const MAX_MESSAGE = 4 << 20;

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
  if (length <= MAX_MESSAGE) return [];
  const field = bodyRef === undefined ? "body" : "bodyRef";
  return [
    wrong(field, `${field} must be at most ${MAX_MESSAGE} bytes for a message, got ${length}`),
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

function wrong(field: string, message: string): FieldProblem {
  return { field, value: undefined, message };
}
