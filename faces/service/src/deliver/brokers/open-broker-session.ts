/** Open broker session: a connection to a broker, from the lookup of its name to the login. */

import type { SenderParts } from "../deliverer.ts";
import { ConnectTimeout } from "../failure.ts";
import type { OpenSession } from "../sessions/session.ts";
import { AmqpSession } from "./amqp/amqp-session.ts";
import { RedisSession } from "./redis/redis-session.ts";
import type {
  BrokerSession,
  BrokerSessionParts,
  BrokerSessionPlace,
} from "./session/broker-session.ts";

/** The login is part of opening the connection, so the time for that includes it. */
export function openBrokerSession({
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
