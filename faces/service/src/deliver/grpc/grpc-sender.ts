/** gRPC sender: sends the attempts of gRPC targets over shared connections of HTTP/2. */
import type { TLSSocket } from "node:tls";
import type { SessionAttemptCall } from "../attempt.ts";
import type { Sender, SenderParts } from "../deliverer.ts";
import { NO_ALPN } from "../failure.ts";
import type { OpenSession, SessionPlace } from "../sessions/session.ts";
import { SessionPool } from "../sessions/session-pool.ts";
import { GrpcCall } from "./call.ts";
import { GrpcSession } from "./session.ts";

export function createGrpcSender(parts: SenderParts): Sender {
  const { clock, deadlines, connector } = parts;
  const pool = new SessionPool(clock, connector, openSession(parts));
  return {
    send(call: SessionAttemptCall) {
      const attempt = new GrpcCall(clock, deadlines, call);
      attempt.cancelOpening = pool.acquire(placeOf(call), attempt);
    },
    close: () => pool.close(),
  };
}

function placeOf({ endpoint }: SessionAttemptCall): SessionPlace {
  const { name, port, isTls } = endpoint;
  return { key: `${isTls ? "grpcs" : "grpc"}://${name}:${port}`, endpoint };
}

function openSession({ clock, connector }: SenderParts): OpenSession<SessionPlace, GrpcSession> {
  return async (place, opener, owner) => {
    const socket = await connector.open(place.endpoint, opener);
    if (place.endpoint.isTls && (socket as TLSSocket).alpnProtocol !== "h2") {
      socket.destroy();
      throw noHttp2();
    }
    return new GrpcSession(socket, place, clock.monotonicMs(), owner);
  };
}

/** The target completed the handshake without the choice of a protocol. */
function noHttp2(): Error {
  return Object.assign(new Error("no HTTP/2"), { code: NO_ALPN });
}
