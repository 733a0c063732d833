/** Broker sender: publishes the attempts of broker targets over shared connections. */
import { ABORTED, type Cancel, GRPC_CODES, type Outcome, recordedOutcome } from "@redrive/core";
import { AmqpSession } from "./amqp.ts";
import type { BodyStream, ResultNote, SessionAttemptCall } from "./attempt.ts";
import { type BrokerLogin, type BrokerMessage, brokerMessage, loginIn } from "./broker-message.ts";
import {
  type BrokerAnswer,
  BrokerFailure,
  BrokerRefusal,
  type BrokerSession,
  type BrokerSessionParts,
  type BrokerSessionPlace,
  type Publication,
} from "./broker-session.ts";
import type { Sender, SenderParts } from "./deliverer.ts";
import {
  ConnectTimeout,
  type Failure,
  failureOf,
  messageFor,
  type TargetProtocol,
} from "./failure.ts";
import { RedisSession } from "./redis-stream.ts";
import { BodyCapture } from "./response.ts";
import { type OpenSession, SessionCall, SessionPool, type SessionUser } from "./session-pool.ts";
import type { BrokerPlace } from "./target.ts";

export function createBrokerSender(parts: SenderParts): Sender {
  const { clock, deadlines, connector } = parts;
  const pool = new SessionPool(clock, connector, openBrokerSession(parts));
  return {
    send(call: SessionAttemptCall) {
      const login = loginIn(call.request.headers);
      const attempt = new BrokerCall(clock, deadlines, withSecrets(call, login));
      attempt.run((user) => pool.acquire(placeOf(call, login), user));
    },
    close: () => pool.close(),
  };
}

/** Connections with another login or another part of the broker cannot replace each other. */
function placeOf(
  { endpoint, target }: SessionAttemptCall,
  login: BrokerLogin | undefined,
): BrokerSessionPlace {
  const { place } = target.broker as NonNullable<typeof target.broker>;
  const part = place.kind === "amqp" ? place.virtualHost : place.database;
  const key = JSON.stringify([target.origin, part, login?.user, login?.password]);
  return { key, endpoint, place, login };
}

/** The broker receives the password itself, and must not put it into the log. */
function withSecrets(call: SessionAttemptCall, login: BrokerLogin | undefined): SessionAttemptCall {
  if (login === undefined) return call;
  const secrets = [...(call.request.secrets ?? []), login.password];
  return { ...call, request: { ...call.request, secrets } };
}

// Broker call: one attempt of a task whose target is a broker. It publishes one message and ends
// with the broker's answer. A connection whose answer did not arrive in time gets no more messages.

class BrokerCall extends SessionCall<BrokerSession> implements Publication {
  // Mutable state: the progress of the call.
  message: BrokerMessage = brokerMessage(this.call.headers, this.call.request.body);
  body: BodyCapture | undefined;
  #session: BrokerSession | undefined;
  /** Undefined until bytes may have been sent. */
  #sentMs: number | undefined;

  get place(): BrokerPlace {
    return (this.call.target.broker as { readonly place: BrokerPlace }).place;
  }

  /** Waits for a connection. A long body is read first, because a message is sent in one piece. */
  run(acquire: (user: SessionUser<BrokerSession>) => Cancel): void {
    const { stream } = this.call.request;
    const connect = () => {
      this.cancelOpening = acquire(this);
    };
    if (stream === undefined) connect();
    else this.#readBody(stream, connect);
  }

  #readBody(long: BodyStream, then: () => void): void {
    readAll(long).then(
      (body) => {
        if (this.isOver) return;
        this.message = { ...this.message, body };
        then();
      },
      (error: Error) => {
        if (!this.isOver) this.#endWith(error);
      },
    );
  }

  onNoSession(error: Error): void {
    if (!this.isOver) this.#endWith(error);
  }

  onSession(session: BrokerSession): void {
    this.cancelOpening = undefined;
    if (this.isOver) return;
    this.#session = session;
    session.publish(this);
  }

  mayStart(): boolean {
    if (this.isOver) return false;
    if (this.call.options.mayStart?.() === false) {
      this.end(ABORTED, null, false);
      return false;
    }
    this.#sentMs = this.clock.monotonicMs();
    return true;
  }

  onAnswer(answer: BrokerAnswer): void {
    if (this.isOver) return;
    if (this.#sentMs !== undefined) this.firstByteMs = this.clock.monotonicMs() - this.#sentMs;
    if (answer.isElsewhere) this.#session?.retire();
    this.#endAnswered(answer);
  }

  onFailure(error: Error): void {
    if (!this.isOver) this.#endWith(error);
  }

  protected endEarly(failure: Failure | undefined): void {
    if (this.isOver) return;
    const session = this.#session;
    const known = session?.unanswered();
    if (failure === undefined) this.end(ABORTED, null, false);
    else if (known !== undefined) this.#endAnswered(known);
    else this.endFailed(failure, this.#sentMs !== undefined);
    this.cancelOpening?.();
    if (known === undefined) session?.retire();
  }

  #endWith(error: Error): void {
    if (error instanceof BrokerRefusal) this.#endAnswered(error.answer);
    else this.endFailed(this.#failureOf(error), this.#sentMs !== undefined);
  }

  #failureOf(error: Error): Failure {
    const isSent = this.#sentMs !== undefined;
    const protocol = PROTOCOLS[this.place.kind];
    if (!(error instanceof BrokerFailure)) return failureOf(error, isSent, protocol);
    const { errorClass: found, detail } = error;
    const errorClass = found === "reset" && !isSent ? "connect" : found;
    return { errorClass, errorMessage: messageFor(errorClass, detail, protocol) };
  }

  #endAnswered({ code, note, text }: BrokerAnswer): void {
    const status = GRPC_CODES.indexOf(code);
    this.head = { status, headers: {} };
    if (text !== undefined && text !== "") {
      this.body = new BodyCapture();
      this.body.add(Buffer.from(text));
    }
    const remark = note === null ? null : { errorClass: null, errorMessage: note };
    this.end(recordedOutcome(status), remark, true);
  }

  protected override end(outcome: Outcome, note: ResultNote | null, isComplete: boolean): void {
    super.end(outcome, note, isComplete);
    this.#session?.release(this);
  }
}

const PROTOCOLS: Readonly<Record<BrokerPlace["kind"], TargetProtocol>> = {
  amqp: "AMQP 0-9-1",
  "redis-stream": "RESP",
};

async function readAll({ stream, length }: BodyStream): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk as Uint8Array);
  return Buffer.concat(chunks, length);
}

// Open broker session: a connection to a broker, from the lookup of its name to the login.

/** The login is part of opening the connection, so the time for that includes it. */
function openBrokerSession({
  clock,
  connector,
}: SenderParts): OpenSession<BrokerSessionPlace, BrokerSession> {
  return async (place, opener, owner) => {
    const startMs = clock.monotonicMs();
    const socket = await connector.open(place.endpoint, opener);
    const session = newSession({ clock, socket, place, owner });
    const leftMs = opener.connectTimeoutMs - (clock.monotonicMs() - startMs);
    const end = () => session.fail(new ConnectTimeout());
    const cancelAlarm = clock.alarm(Math.max(0, leftMs), end, true);
    opener.cancelOpening = end;
    try {
      await session.login();
      return session;
    } catch (error) {
      session.fail(error as Error);
      throw error;
    } finally {
      cancelAlarm();
      opener.cancelOpening = undefined;
    }
  };
}

function newSession(parts: BrokerSessionParts): BrokerSession {
  return parts.place.place.kind === "amqp" ? new AmqpSession(parts) : new RedisSession(parts);
}
