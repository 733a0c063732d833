/**
 * Broker session: one connection to a broker, shared by the messages of several tasks. It bounds what the
 * broker may send, and fails every message that has no answer when the connection ends. It is retired
 * when it must get no more messages; then it is closed after its last one. Subclasses know the protocol.
 */
import type { Socket } from "node:net";
import type { Clock, ErrorClass, GrpcCode } from "@redrive/core";
import type { BrokerLogin, BrokerMessage } from "./broker-message.ts";
import {
  connectionClosed,
  MAX_CALLS,
  type Session,
  type SessionOwner,
  type SessionPlace,
} from "./session-pool.ts";
import type { BrokerPlace } from "./target.ts";

export interface BrokerSessionPlace extends SessionPlace {
  readonly place: BrokerPlace;
  readonly login: BrokerLogin | undefined;
}

/** A message that a session publishes. */
export interface Publication {
  readonly place: BrokerPlace;
  readonly message: BrokerMessage;
  /** Asked immediately before the first byte. False: nothing must be sent. */
  mayStart(): boolean;
  onAnswer(answer: BrokerAnswer): void;
  onFailure(error: Error): void;
}

export interface BrokerSessionParts {
  readonly clock: Clock;
  readonly socket: Socket;
  readonly place: BrokerSessionPlace;
  readonly owner: SessionOwner<BrokerSession>;
}

/** The bytes that a broker may send: these at any time, and these and the message per publication. */
const FREE_BYTES = 65_536;

export abstract class BrokerSession implements Session {
  readonly place: BrokerSessionPlace;
  readonly address: string | undefined;
  readonly openedMs: number;
  protected readonly clock: Clock;
  protected readonly socket: Socket;
  readonly #owner: SessionOwner<BrokerSession>;

  // Mutable state.
  isRetired = false;
  readonly #running = new Set<Publication>();
  #received = 0;
  /** The number of received bytes at which the connection is closed. */
  #maxReceived = FREE_BYTES;
  #failure: Error | undefined;

  constructor({ clock, socket, place, owner }: BrokerSessionParts) {
    this.clock = clock;
    this.socket = socket;
    this.place = place;
    this.#owner = owner;
    this.address = socket.remoteAddress;
    this.openedMs = clock.monotonicMs();
    socket.on("data", (chunk: Buffer) => this.#onData(chunk));
    socket.on("error", (error) => this.fail(error));
    socket.on("close", () => this.#onClose());
  }

  /** Resolves when messages can be published. Rejects with the reason why they cannot. */
  abstract login(): Promise<void>;
  /** Publishes as soon as possible. The publication is told its end, unless it is released before. */
  protected abstract start(publication: Publication): void;
  /** The publication has ended. It may be waiting, or its answer may still arrive. */
  protected abstract forget(publication: Publication): void;
  /** Throws a `BrokerFailure` for bytes that violate the protocol. */
  protected abstract receive(chunk: Buffer): void;
  /** Called once, when the connection has failed or is closed. */
  protected abstract onFailed(error: Error): void;
  /** Closes the connection, which works and has no messages. */
  protected abstract close(): void;
  /** What is known about messages without an answer. */
  abstract unanswered(): BrokerAnswer | undefined;
  abstract check(nowMs: number): void;

  get calls(): number {
    return this.#running.size;
  }

  hasRoom(): boolean {
    return !this.isRetired && this.calls < MAX_CALLS;
  }

  publish(publication: Publication): void {
    this.#running.add(publication);
    this.#allow();
    this.socket.ref();
    this.start(publication);
  }

  /** The publication needs nothing more. */
  release(publication: Publication): void {
    if (!this.#running.delete(publication)) return;
    this.forget(publication);
    this.#allow();
    if (this.calls > 0) return;
    if (this.isRetired) {
      if (this.#failure === undefined) this.close();
      return;
    }
    // An idle connection does not keep the process alive.
    this.socket.unref();
    this.#owner.onIdle(this);
  }

  retire(): void {
    if (this.isRetired) return;
    this.isRetired = true;
    if (this.calls === 0) this.close();
  }

  /** Ends the connection now; everything that runs on it fails. */
  fail(error: Error): void {
    this.isRetired = true;
    this.socket.destroy();
    if (this.#failure !== undefined) return;
    this.#failure = error;
    this.onFailed(error);
    for (const publication of [...this.#running]) publication.onFailure(error);
  }

  #onData(chunk: Buffer): void {
    this.#received += chunk.length;
    try {
      if (this.#received > this.#maxReceived) throw tooMuch();
      this.receive(chunk);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  #onClose(): void {
    this.fail(connectionClosed());
    this.#owner.onClosed(this);
  }

  /** A broker returns a message that no queue takes, with its body. */
  #allow(): void {
    let bytes = FREE_BYTES;
    for (const { message } of this.#running) bytes += FREE_BYTES + message.body.length;
    this.#maxReceived = this.#received + bytes;
  }
}

function tooMuch(): Error {
  return violation("it sends more than its messages need");
}

// Broker answer: what a broker said about a message, and the failures without an answer. Answers
// have the codes of gRPC, because a policy has a list of those that are retried.

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
