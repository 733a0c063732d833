/**
 * Response: what a gRPC target has sent so far, and the answer that it amounts to. The code is in the
 * trailers, in the headers of a response without a body, or nowhere; then it follows from the HTTP status.
 */
import { type GrpcCode, type Outcome, parseRetryAfter } from "@redrive/core";
import type { ResultNote } from "../attempt-result.ts";
import type { Failure } from "../failure.ts";
import { BodyCapture, MAX_READ_BODY, type ResponseHead, storeHeader } from "../response.ts";
import { MessageReader } from "./message.ts";
import { MAX_HEADER_BYTES } from "./session.ts";
import { codeOfHttpStatus, codeOutcome, numberOf, readGrpcStatus } from "./status.ts";
import { invalidGrpc } from "./stream-failure.ts";

export interface Answer {
  /** The status is the number of the code. */
  readonly head: ResponseHead;
  readonly outcome: Outcome;
  /** Why the code is not the target's own; null: it is. */
  readonly note: ResultNote | null;
}

const OK = 200;

/**
 * In the last part of the attempt's time, DEADLINE_EXCEEDED is a reply to the deadline that was sent with
 * the call. Both sides measure the same time, and either may be first.
 */
const DEADLINE_SHARE = 0.05;

export class GrpcResponse {
  // Mutable state.
  #status: number | undefined;
  #isGrpc = false;
  readonly #headers: Record<string, string> = {};
  /** The values that matter, not joined and not cut. */
  readonly #hints = new Map<string, string[]>();
  readonly #message = new MessageReader();
  #raw: BodyCapture | undefined;
  /** The part that is above its limit. */
  tooLong: "headers" | "body" | undefined;

  /** The start of the message, or of the body of a response that is not gRPC. */
  get body(): BodyCapture | undefined {
    return this.#isGrpc ? this.#message.body : this.#raw;
  }

  /** Each returns false if the response is too long. */
  addHeaders(raw: readonly string[]): boolean {
    this.#status = Number(valuesOf(raw, ":status")[0]);
    this.#isGrpc = /^application\/grpc\b/i.test(valuesOf(raw, "content-type")[0] ?? "");
    return this.#add(raw);
  }

  addTrailers(raw: readonly string[]): boolean {
    // The code in the trailers is the one that counts.
    if (valuesOf(raw, "grpc-status").length > 0) {
      this.#hints.delete("grpc-status");
      delete this.#headers["grpc-status"];
    }
    return this.#add(raw);
  }

  addData(chunk: Buffer): boolean {
    const isShort = this.#isGrpc ? this.#message.add(chunk) : this.#addRaw(chunk);
    if (!isShort) this.tooLong = "body";
    return isShort;
  }

  /** The answer is certain, whatever follows. */
  isKnown(): boolean {
    return this.#status !== undefined && (this.#status !== OK || this.#hints.has("grpc-status"));
  }

  isComplete(): boolean {
    return this.tooLong === undefined && (!this.#isGrpc || this.#message.isComplete());
  }

  /**
   * Undefined: the response is not gRPC. `now`: epoch ms. `leftShare`: the part of the attempt's time
   * that is left.
   */
  answer(now: number, leftShare: number): Answer | undefined {
    const [given] = this.#hints.get("grpc-status") ?? [];
    if (given !== undefined) return this.#answerOf(given, leftShare);
    if (this.tooLong === "body" && this.#isGrpc) return this.#tooLongAnswer();
    if (this.#status === undefined || this.#status === OK) return undefined;
    const code = codeOfHttpStatus(this.#status);
    return this.#answer(code, this.#withRetryAfter(codeOutcome(code, []), now), {
      errorClass: null,
      errorMessage: `the target responded with HTTP status ${this.#status} and no grpc-status`,
    });
  }

  /** Why a response without an answer is not valid. */
  problem(): Failure {
    if (this.#status === undefined) return invalidGrpc("it has no headers");
    return invalidGrpc(this.#isGrpc ? "it has no grpc-status" : "its content type is not gRPC");
  }

  #answerOf(given: string, leftShare: number): Answer {
    // Several codes contradict each other.
    const isOne = this.#hints.get("grpc-status")?.length === 1;
    const code = isOne ? readGrpcStatus(given) : "UNKNOWN";
    if (code === "DEADLINE_EXCEEDED" && leftShare <= DEADLINE_SHARE) {
      const outcome = { kind: "error", errorClass: "timeout", sent: true } as const;
      const errorMessage = "the target reports that the time of the attempt is over";
      return this.#answer(code, outcome, { errorClass: "timeout", errorMessage });
    }
    const pushback = this.#hints.get("grpc-retry-pushback-ms") ?? [];
    return this.#answer(code, codeOutcome(code, pushback), null);
  }

  /** The same response would be too long at the next attempt, so there is none. */
  #tooLongAnswer(): Answer {
    const code = "RESOURCE_EXHAUSTED";
    return this.#answer(
      code,
      { kind: "grpc", code, verdict: "terminal" },
      { errorClass: null, errorMessage: "the target's response is longer than 4 MiB" },
    );
  }

  #withRetryAfter(outcome: Outcome, now: number): Outcome {
    const hint = this.#hints.get("retry-after");
    const retryAfterMs = hint && parseRetryAfter(hint.join(), now, this.#headers["date"]);
    return retryAfterMs === undefined ? outcome : { ...outcome, retryAfterMs };
  }

  #answer(code: GrpcCode, outcome: Outcome, note: ResultNote | null): Answer {
    const head = { status: numberOf(code), headers: this.#headers, retryAfter: [] };
    return { head, outcome, note };
  }

  #addRaw(chunk: Buffer): boolean {
    this.#raw ??= new BodyCapture();
    this.#raw.add(chunk);
    return this.#raw.length <= MAX_READ_BODY;
  }

  #add(raw: readonly string[]): boolean {
    let bytes = 0;
    for (let index = 0; index + 1 < raw.length; index += 2) {
      const [name = "", value = ""] = [raw[index], raw[index + 1]];
      bytes += name.length + value.length;
      if (HINTS.has(name)) this.#hints.set(name, [...(this.#hints.get(name) ?? []), value]);
      storeHeader(this.#headers, name, name === "grpc-message" ? decoded(value) : value);
    }
    if (bytes > MAX_HEADER_BYTES) this.tooLong = "headers";
    return bytes <= MAX_HEADER_BYTES;
  }
}

const HINTS = new Set(["grpc-status", "grpc-retry-pushback-ms", "retry-after"]);

function valuesOf(raw: readonly string[], name: string): readonly string[] {
  return raw.filter((_, index) => index % 2 === 1 && raw[index - 1] === name);
}

/** Decoded before it is stored, so that a secret in it is found. Invalid text stays as it is. */
function decoded(message: string): string {
  try {
    return decodeURIComponent(message);
  } catch {
    return message;
  }
}
