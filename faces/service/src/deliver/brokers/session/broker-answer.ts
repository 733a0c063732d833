/**
 * Broker answer: what a broker said about a message, and the failures without an answer. Answers have the
 * codes of gRPC, because a policy has a list of those that are retried.
 */
import type { ErrorClass, GrpcCode } from "@redrive/core";

export interface BrokerAnswer {
  /** `OK`: the broker has the message. */
  readonly code: GrpcCode;
  /** Why the code is not `OK`, in our words. */
  readonly note: string | null;
  /** What the broker said, if anything. */
  readonly text?: string | undefined;
  /** The next attempt needs another connection, because the name may lead to another server then. */
  readonly isElsewhere?: boolean;
}

/** The broker refuses every message on this connection. */
export class BrokerRefusal extends Error {
  override readonly name = "BrokerRefusal";
  readonly answer: BrokerAnswer;

  constructor(answer: BrokerAnswer) {
    super(answer.note ?? answer.code);
    this.answer = answer;
  }
}

/** The connection failed in a way that has a class of its own. */
export class BrokerFailure extends Error {
  override readonly name = "BrokerFailure";
  readonly errorClass: ErrorClass;
  /** In our words, for the attempt log. */
  readonly detail: string;

  constructor(errorClass: ErrorClass, detail: string) {
    super(detail);
    this.errorClass = errorClass;
    this.detail = detail;
  }
}

/** The target's bytes violate the protocol. */
export function violation(detail: string): BrokerFailure {
  return new BrokerFailure("protocol", detail);
}
