/**
 * Arrival limit: the body of a request must arrive in time. An upload may take long, but it must make
 * progress. Node has one limit for all requests of a server, which must allow for the longest upload.
 */
import type { IncomingMessage } from "node:http";
import type { Clock } from "@redrive/core";
import { serviceError } from "../../model/errors.ts";
import { DeadlineTimer, type TimerEntry } from "../../time/deadline-timer.ts";
import { endSocket } from "../response/error-response.ts";

export class ArrivalLimit {
  readonly #clock: Clock;
  readonly #timer: DeadlineTimer;
  readonly #limitMs: number;

  constructor(clock: Clock, limitMs: number) {
    this.#clock = clock;
    this.#timer = new DeadlineTimer(clock);
    this.#limitMs = limitMs;
  }

  watch(request: IncomingMessage, isUpload: boolean): void {
    if (hasBody(request)) this.#watchBody(request, isUpload);
  }

  /** Watches an entry of the caller until it leaves. If it expires, the caller calls `end`. */
  enter(entry: TimerEntry & { deadlineMs: number }): void {
    entry.deadlineMs = this.#clock.monotonicMs() + this.#limitMs;
    this.#timer.add(entry);
  }

  leave(entry: TimerEntry): void {
    this.#timer.remove(entry);
  }

  /** Responds to a request that did not arrive in time, and closes its connection. */
  end({ socket }: IncomingMessage): void {
    endSocket(socket, serviceError("REQUEST_TIMEOUT", LATE));
  }

  #watchBody(request: IncomingMessage, isUpload: boolean): void {
    const { socket } = request;
    const bytesRead = socket.bytesRead;
    let isOver = false;
    const entry: TimerEntry = {
      deadlineMs: this.#clock.monotonicMs() + this.#limitMs,
      slot: -1,
      expire: () => {
        if (isOver || request.complete) return;
        if (isUpload && socket.bytesRead !== bytesRead) this.#watchBody(request, isUpload);
        else this.end(request);
      },
    };
    this.#timer.add(entry);
    request.once("close", () => {
      isOver = true;
      this.#timer.remove(entry);
    });
  }
}

const LATE = "the request did not arrive in time";

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";
}
