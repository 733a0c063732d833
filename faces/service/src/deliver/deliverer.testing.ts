/** A deliverer for tests: real clock, real sockets on this machine, and a simulated DNS. */
import { systemClock } from "@redrive/core";
import { createTargetPolicy } from "./address-guard.ts";
import type { AttemptResult } from "./attempt.ts";
import { createBrokerSender } from "./broker-sender.ts";
import {
  createDeliverer,
  type Deliverer,
  type DelivererOptions,
  type DeliverOptions,
  type DeliverRequest,
} from "./deliverer.ts";
import { createGrpcSender } from "./grpc.ts";
import type { Resolver } from "./lookup.ts";

/** Every name resolves to this machine. */
export const everythingHere: Resolver = async () => [{ address: "127.0.0.1", family: 4 }];

export function testDeliverer(options: Partial<DelivererOptions> = {}): Deliverer {
  const targets = createTargetPolicy({ mode: "loopback" });
  return createDeliverer({
    clock: systemClock,
    targets,
    resolve: everythingHere,
    createGrpcSender,
    createBrokerSender,
    ...options,
  });
}

export function requestTo(targetUrl: string, more: Partial<DeliverRequest> = {}): DeliverRequest {
  return {
    taskId: "0190b4c8-0000-7000-8000-000000000001",
    attemptNumber: 1,
    targetUrl,
    method: "POST",
    headers: { "content-type": "text/plain" },
    body: Buffer.from("hello"),
    idempotencyKey: null,
    ...more,
  };
}

/** Generous: an attempt that takes this long fails the test. */
export const AMPLE: DeliverOptions = { attemptTimeoutMs: 10_000, connectTimeoutMs: 10_000 };

/**
 * For a target that never ends the response. The first bytes must arrive within this time even
 * while eight other tests use the processor, or the attempt ends in another way than intended.
 */
export const SHORT: DeliverOptions = { attemptTimeoutMs: 1000, connectTimeoutMs: 1000 };

/** A short summary of a result, for assertions. */
export function brief(result: AttemptResult): string {
  const { outcome, status, errorClass, truncated } = result;
  const words = [outcome.kind, status, errorClass, truncated ? "truncated" : null];
  return words.filter((word) => word !== null).join(" ");
}

export function bodyOf(result: AttemptResult): string {
  return Buffer.from(result.responseBody ?? []).toString("latin1");
}
