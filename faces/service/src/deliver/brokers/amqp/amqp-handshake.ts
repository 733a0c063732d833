/**
 * AMQP handshake: the methods that open a connection. The broker says what it can do (start), accepts
 * the login and sets limits (tune), and opens the virtual host (open-ok).
 */
import { MAX_CALLS } from "../../sessions/session.ts";
import { BrokerFailure, BrokerRefusal, violation } from "../session/broker-answer.ts";
import type { BrokerLogin } from "../session/broker-login.ts";
import { loginAnswer, type Reply } from "./amqp-answers.ts";
import type { FieldReader } from "./amqp-fields.ts";
import { MAX_FRAME } from "./amqp-frames.ts";
import { openConnection, RECEIVED, startOk, type Tuning, tuneOk } from "./amqp-methods.ts";

/** Seconds without a frame after which each side may give the other up. RabbitMQ has the same default. */
const MAX_HEARTBEAT = 60;

/** No frame may be shorter (AMQP 0-9-1, frame-min-size). */
const MIN_FRAME = 4096;

export interface HandshakeParts {
  readonly login: BrokerLogin | undefined;
  readonly virtualHost: string;
  readonly write: (bytes: Buffer) => void;
  readonly onOpen: (tuning: Tuning) => void;
}

export class AmqpHandshake {
  readonly #parts: HandshakeParts;

  // Mutable state.
  #expected: number = RECEIVED.start;
  #tuning: Tuning | undefined;

  constructor(parts: HandshakeParts) {
    this.#parts = parts;
  }

  /** Throws if the broker refuses the connection or violates the protocol. */
  receive(method: number, fields: FieldReader): void {
    if (method === RECEIVED.close) throw this.#refusal(fields);
    if (method !== this.#expected) throw violation("a method is out of order");
    if (method === RECEIVED.start) this.#onStart(fields);
    else if (method === RECEIVED.tune) this.#onTune(fields);
    else this.#parts.onOpen(this.#tuning as Tuning);
  }

  #onStart(fields: FieldReader): void {
    fields.short();
    fields.skipTable();
    if (!fields.longString().split(" ").includes("PLAIN")) {
      throw new BrokerRefusal({ code: "UNAUTHENTICATED", note: NO_PASSWORDS });
    }
    this.#parts.write(startOk(this.#parts.login));
    this.#expected = RECEIVED.tune;
  }

  #onTune(fields: FieldReader): void {
    const tuning = {
      channels: lower(fields.short(), MAX_CALLS),
      frameBytes: lower(fields.long(), MAX_FRAME),
      heartbeat: Math.min(fields.short(), MAX_HEARTBEAT),
    };
    if (tuning.frameBytes < MIN_FRAME) throw violation("its frames are too short");
    const { write, virtualHost } = this.#parts;
    this.#tuning = tuning;
    write(Buffer.concat([tuneOk(tuning), openConnection(virtualHost)]));
    this.#expected = RECEIVED.openOk;
  }

  #refusal(fields: FieldReader): Error {
    const reply: Reply = { code: fields.short(), text: fields.shortString() };
    const answer = loginAnswer(reply, this.#tuning !== undefined);
    return answer instanceof BrokerFailure ? answer : new BrokerRefusal(answer);
  }
}

const NO_PASSWORDS = "the broker does not accept passwords (SASL mechanism PLAIN)";

/** The broker's limit or ours. Its 0 means that it has none. */
function lower(limit: number, own: number): number {
  return limit === 0 ? own : Math.min(limit, own);
}
