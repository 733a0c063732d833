/** Redis answers: what the error replies of Redis mean for a message. */
import type { GrpcCode } from "@redrive/core";
import type { BrokerAnswer } from "../session/broker-answer.ts";

/**
 * By the first word of the reply. A server that is loading, that lost its replicas, its disk or its
 * cluster, or that became a replica itself may accept the message later.
 */
const CODES: ReadonlyMap<string, GrpcCode> = new Map([
  ["ASK", "UNAVAILABLE"],
  ["BUSY", "UNAVAILABLE"],
  ["CLUSTERDOWN", "UNAVAILABLE"],
  ["DENIED", "PERMISSION_DENIED"],
  ["LOADING", "UNAVAILABLE"],
  ["MASTERDOWN", "UNAVAILABLE"],
  ["MISCONF", "UNAVAILABLE"],
  ["MOVED", "FAILED_PRECONDITION"],
  ["NOAUTH", "UNAUTHENTICATED"],
  ["NOPERM", "PERMISSION_DENIED"],
  ["NOREPLICAS", "UNAVAILABLE"],
  ["OOM", "RESOURCE_EXHAUSTED"],
  ["READONLY", "UNAVAILABLE"],
  ["TRYAGAIN", "UNAVAILABLE"],
  ["WRONGPASS", "UNAUTHENTICATED"],
  ["WRONGTYPE", "FAILED_PRECONDITION"],
]);

/** The name of the server may lead to another one soon. */
const ELSEWHERE = new Set(["CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "READONLY"]);

/** Errors without a word of their own. */
const TEXTS: readonly (readonly [start: string, code: GrpcCode])[] = [
  ["ERR max number of clients reached", "RESOURCE_EXHAUSTED"],
  ["ERR unknown command", "UNIMPLEMENTED"],
];

/** `otherwise`: the code of an error that is not known. */
export function errorAnswer(text: string, otherwise: GrpcCode = "UNKNOWN"): BrokerAnswer {
  const [word = ""] = text.split(" ", 1);
  const known = CODES.get(word) ?? TEXTS.find(([start]) => text.startsWith(start))?.[1];
  const note = `the broker refused the message (${CODES.has(word) ? word : "ERR"})`;
  const isElsewhere = ELSEWHERE.has(word);
  return {
    code: known ?? otherwise,
    note,
    text: quotesArguments(text) ? undefined : text,
    isElsewhere,
  };
}

/** Redis quotes the first 128 bytes of what it did not understand, which may be half of a password. */
function quotesArguments(text: string): boolean {
  return /unknown command/i.test(text);
}

/** `text`: the id of the entry. */
export function addedAnswer(text: string): BrokerAnswer {
  return { code: "OK", note: null, text };
}

export const NO_STREAM: BrokerAnswer = {
  code: "NOT_FOUND",
  note: "the stream does not exist, and the target says create=false",
};
