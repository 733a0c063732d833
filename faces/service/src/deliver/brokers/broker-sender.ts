/** Broker sender: publishes the attempts of broker targets over shared connections. */
import type { SessionAttemptCall } from "../attempt.ts";
import type { Sender, SenderParts } from "../deliverer.ts";
import { SessionPool } from "../sessions/session-pool.ts";
import { BrokerCall } from "./broker-call.ts";
import { openBrokerSession } from "./open-broker-session.ts";
import { type BrokerLogin, loginIn } from "./session/broker-login.ts";
import type { BrokerSessionPlace } from "./session/broker-session.ts";

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
