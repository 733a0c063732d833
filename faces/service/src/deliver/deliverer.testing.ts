/**
 * A deliverer for tests: on the real clock and real sockets, toward this machine, with answers of
 * the DNS as the test plays them.
 */
import { systemClock } from "@redrive/core";
import type { Resolver } from "./address-guard/resolver.ts";
import { createTargetPolicy } from "./address-guard/target-policy.ts";
import type { AttemptResult } from "./attempt-result.ts";
import {
  createDeliverer,
  type Deliverer,
  type DelivererOptions,
  type DeliverOptions,
  type DeliverRequest,
} from "./deliverer.ts";

/** Every name is this machine. */
export const everythingHere: Resolver = async () => [{ address: "127.0.0.1", family: 4 }];

export function testDeliverer(options: Partial<DelivererOptions> = {}): Deliverer {
  const targets = createTargetPolicy({ mode: "loopback" });
  return createDeliverer({ clock: systemClock, targets, resolve: everythingHere, ...options });
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

/** Ample: an attempt that needs this long has failed the test, not the deadline. */
export const AMPLE: DeliverOptions = { attemptTimeoutMs: 10_000, connectTimeoutMs: 10_000 };

/**
 * For a target that never ends by itself. What it says first must be in by then also where eight
 * others want the processor, or the attempt ends otherwise than the test means.
 */
export const SHORT: DeliverOptions = { attemptTimeoutMs: 1000, connectTimeoutMs: 1000 };

/** What most tests look at, in a few words. */
export function brief(result: AttemptResult): string {
  const { outcome, status, errorClass, truncated } = result;
  const words = [outcome.kind, status, errorClass, truncated ? "truncated" : null];
  return words.filter((word) => word !== null).join(" ");
}

export function bodyOf(result: AttemptResult): string {
  return Buffer.from(result.responseBody ?? []).toString("latin1");
}
