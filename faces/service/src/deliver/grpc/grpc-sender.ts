/** gRPC sender: sends the attempts of gRPC targets over shared connections of HTTP/2. */
import type { GrpcAttemptCall } from "../attempt.ts";
import type { GrpcSender, GrpcSenderParts } from "../deliverer.ts";
import { GrpcCall } from "./call.ts";
import { SessionPool } from "./session-pool.ts";

export function createGrpcSender({ clock, deadlines, connector }: GrpcSenderParts): GrpcSender {
  const pool = new SessionPool(clock, connector);
  return {
    send(call: GrpcAttemptCall) {
      const attempt = new GrpcCall(clock, deadlines, call);
      attempt.cancelOpening = pool.acquire(call.endpoint, attempt);
    },
    close: () => pool.close(),
  };
}
