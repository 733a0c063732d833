/**
 * AMQP answers: what the reply codes of AMQP 0-9-1 and of RabbitMQ mean for a message. A code that is
 * not known, and one with which the broker complains about this client, is a failure of the protocol.
 */
import type { GrpcCode } from "@redrive/core";
import { type BrokerAnswer, BrokerFailure } from "../session/broker-answer.ts";

/** A reply of the broker with a code. */
export interface Reply {
  readonly code: number;
  readonly text: string;
}

const CODES: ReadonlyMap<number, readonly [name: string, code: GrpcCode]> = new Map([
  [311, ["CONTENT_TOO_LARGE", "INVALID_ARGUMENT"]],
  [312, ["NO_ROUTE", "NOT_FOUND"]],
  [313, ["NO_CONSUMERS", "UNAVAILABLE"]],
  [320, ["CONNECTION_FORCED", "UNAVAILABLE"]],
  [402, ["INVALID_PATH", "NOT_FOUND"]],
  [403, ["ACCESS_REFUSED", "PERMISSION_DENIED"]],
  [404, ["NOT_FOUND", "NOT_FOUND"]],
  [405, ["RESOURCE_LOCKED", "FAILED_PRECONDITION"]],
  [406, ["PRECONDITION_FAILED", "FAILED_PRECONDITION"]],
  [506, ["RESOURCE_ERROR", "RESOURCE_EXHAUSTED"]],
  [530, ["NOT_ALLOWED", "PERMISSION_DENIED"]],
  [540, ["NOT_IMPLEMENTED", "UNIMPLEMENTED"]],
  [541, ["INTERNAL_ERROR", "UNAVAILABLE"]],
]);

/** RabbitMQ has no code of its own for its limits of connections and channels. */
const LIMIT_REACHED = /\breached\b/;

/** An answer, or a failure if the broker complains about this client. */
export function replyAnswer({ code, text }: Reply): BrokerAnswer | BrokerFailure {
  const known = CODES.get(code);
  if (known === undefined) return new BrokerFailure("protocol", String(code));
  const [name, found] = known;
  const isLimit = name === "NOT_ALLOWED" && LIMIT_REACHED.test(text);
  const note = `${NOTES[name] ?? "the broker refused the message"} (${code} ${name})`;
  return { code: isLimit ? "RESOURCE_EXHAUSTED" : found, note, text };
}

const NOTES: Readonly<Record<string, string>> = {
  NO_ROUTE: "the broker returned the message, because no queue takes it",
};

/** The broker ended the connection, so it may have taken any of its messages. */
export function closeFailure({ code }: Reply): BrokerFailure {
  const name = CODES.get(code)?.[0];
  return name === undefined
    ? new BrokerFailure("protocol", String(code))
    : new BrokerFailure("reset", `${code} ${name}`);
}

/** The broker ended the connection during the login. `isKnown`: it has accepted the password. */
export function loginAnswer(reply: Reply, isKnown: boolean): BrokerAnswer | BrokerFailure {
  const answer = replyAnswer(reply);
  if (answer instanceof BrokerFailure || reply.code !== 403 || isKnown) return answer;
  const note = "the broker refused the user or the password (403 ACCESS_REFUSED)";
  return { ...answer, code: "UNAUTHENTICATED", note };
}

export const OK: BrokerAnswer = { code: "OK", note: null };

export const NACK: BrokerAnswer = {
  code: "RESOURCE_EXHAUSTED",
  note: "the broker did not accept the message (basic.nack), as a full queue does",
};

export const HEADERS_TOO_LONG: BrokerAnswer = {
  code: "INVALID_ARGUMENT",
  note: "the headers of the message do not fit into a frame of the broker",
};

/** `text`: the reason that the broker gave. */
export function blockedAnswer(text: string): BrokerAnswer {
  const note = "the broker blocks publishers, because it lacks memory or disk space";
  return { code: "RESOURCE_EXHAUSTED", note, text };
}
