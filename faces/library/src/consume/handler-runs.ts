/**
 * Handler runs: runs the handler of a message as one call of the destination, and turns its end into a
 * disposition.
 */
import { type Clock, RedriveError } from "@redrive/core";
import type { AttemptContext, Classify } from "../call/options.ts";
import type { Destination } from "../destination/destination.ts";
import type { ConsumeEventDetails } from "./consume-event.ts";
import type { Dispositions } from "./dispositions.ts";
import { LiveList } from "./live-list.ts";
import {
  DeferRequest,
  type Disposition,
  type Message,
  type MessageContext,
  type MessageHandler,
} from "./message.ts";
import { type FailedAttempt, MessageAttempt } from "./message-attempt.ts";
import type { MessageState } from "./message-state.ts";

export interface HandlerRunsParts<Body> {
  readonly handler: MessageHandler<Body>;
  readonly destination: Destination;
  readonly clock: Clock;
  readonly maxHoldMs: number;
  readonly idempotent: boolean;
  readonly classify: Classify<unknown> | undefined;
  readonly dispositions: Dispositions;
  /** Undefined: nobody listens. */
  readonly emit: ((details: ConsumeEventDetails) => void) | undefined;
  /** A handler may still run after its message has its disposition. */
  readonly onOverdue: (running: Promise<unknown>) => void;
}

const HANDLED: Disposition = Object.freeze({ kind: "ack", isDuplicate: false });

export class HandlerRuns<Body> {
  readonly #parts: HandlerRunsParts<Body>;
  readonly #running = new LiveList<MessageAttempt>();

  constructor(parts: HandlerRunsParts<Body>) {
    this.#parts = parts;
  }

  /** Ends all attempts. They do not count. */
  abortAll(reason: unknown): void {
    for (const attempt of this.#running.all()) attempt.abort(reason);
  }

  /** `done`: called when the message has its disposition. */
  async run(message: Message<Body>, state: MessageState, done?: () => void): Promise<Disposition> {
    const { handler, destination, maxHoldMs } = this.#parts;
    const attempt = new MessageAttempt(state, maxHoldMs);
    let running: unknown;
    const operation = (context: AttemptContext) => {
      running = handler(message, context as MessageContext);
      return running;
    };
    this.#running.add(attempt);
    try {
      const value = await destination.run(operation, this.#optionsOf(message, attempt));
      return this.#afterSuccess(message, state, attempt, value);
    } catch (error) {
      const failure = attempt.failure ?? misuse(error);
      if (isCutOff(failure)) this.#keepOverdue(message.id, state.attempts + 1, running);
      return this.#parts.dispositions.afterFailure(message, state, failure, attempt.elapsedMs());
    } finally {
      this.#running.remove(attempt);
      done?.();
    }
  }

  #afterSuccess(
    message: Message<Body>,
    state: MessageState,
    attempt: MessageAttempt,
    value: unknown,
  ): Disposition {
    const { dispositions, emit } = this.#parts;
    if (value instanceof DeferRequest) {
      return dispositions.defer(message, state, "handler", value.delayMs);
    }
    if (emit !== undefined) {
      const durationMs = attempt.elapsedMs();
      emit({ type: "handled", id: message.id, attempt: state.attempts + 1, durationMs });
    }
    return HANDLED;
  }

  #optionsOf({ id, deadlineAt }: Message<Body>, attempt: MessageAttempt) {
    const { classify, idempotent } = this.#parts;
    return {
      // A handler is not hedged: a second copy would run in the same process.
      once: true,
      patience: "wait",
      idempotencyKey: id,
      idempotent,
      ...(deadlineAt !== undefined && { deadlineAt }),
      ...(classify !== undefined && { classify }),
      signal: attempt.signal,
    } as const;
  }

  /** The handler may run on after its attempt has ended. */
  #keepOverdue(id: string, attempt: number, running: unknown): void {
    if (!(running instanceof Promise)) return;
    this.#parts.onOverdue(running);
    let isOver = false;
    const end = () => {
      isOver = true;
    };
    running.then(end, end);
    // A handler that honors its signal ends within this turn.
    this.#parts.clock.endOfTurn(() => {
      if (!isOver) this.#parts.emit?.({ type: "still-running", id, attempt });
    });
  }
}

/** True if the attempt ended before its handler did. */
function isCutOff({ end, error }: FailedAttempt): boolean {
  const isTimeout = error instanceof RedriveError && error.code === "ATTEMPT_TIMEOUT";
  return isTimeout || end === "aborted";
}

/** The call did not start because of a mistake in the program. A retry would repeat it. */
function misuse(error: unknown): FailedAttempt {
  return { end: "failed", reason: "not-retryable", error, verdict: "terminal", next: undefined };
}
