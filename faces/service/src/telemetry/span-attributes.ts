/**
 * Span attributes: what a span says about an attempt, with the names of OpenTelemetry's semantic
 * conventions (HTTP 1.23, RPC release candidate, messaging 1.30) and our own, which begin with
 * `redrive.`. They hold no header, no body and no path or query of an HTTP URL, because those may be
 * secrets.
 */
import { type Attributes, SpanKind } from "@opentelemetry/api";
import { statusText } from "@redrive/core";
import { brokerPlace } from "../deliver/address-guard/broker-target.ts";
import { parseTargetUrl, type TargetUrl } from "../deliver/address-guard/target-url.ts";
import type { AttemptResult } from "../deliver/attempt-result.ts";
import type { StartedTask } from "../model/batch.ts";

/** What is known before the attempt. */
export interface RequestAttributes {
  /** The name of the span: the method of HTTP or of gRPC, or the queue of a message. */
  readonly name: string;
  readonly kind: SpanKind;
  readonly attributes: Attributes;
}

export function requestAttributes(task: StartedTask): RequestAttributes {
  const { taskId, tenantId, destination, attemptNumber, policyId, targetUrl, method } = task;
  const target = parseTargetUrl(targetUrl);
  const own: Attributes = {
    "redrive.task.id": taskId,
    "redrive.tenant": tenantId,
    "redrive.destination": destination,
    "redrive.policy": policyId,
    "redrive.attempt": attemptNumber,
  };
  if (target === undefined) return { name: method, kind: SpanKind.CLIENT, attributes: own };
  const { name, kind, attributes } = protocolAttributes(target, task);
  const server = { "server.address": target.url.hostname, "server.port": target.port };
  return { name, kind, attributes: { ...own, ...server, ...attributes } };
}

function protocolAttributes(target: TargetUrl, task: StartedTask): RequestAttributes {
  switch (target.scheme) {
    case "http":
      return httpAttributes(target, task);
    case "grpc": {
      const name = target.url.pathname.slice(1);
      const attributes = { "rpc.system.name": "grpc", "rpc.method": name };
      return { name, kind: SpanKind.CLIENT, attributes };
    }
    default:
      return messageAttributes(target);
  }
}

function httpAttributes(
  { url, origin }: TargetUrl,
  { method, attemptNumber }: StartedTask,
): RequestAttributes {
  const attributes: Attributes = {
    "http.request.method": method,
    "url.scheme": url.protocol.slice(0, -1),
    "url.full": `${origin}/REDACTED`,
  };
  if (attemptNumber > 1) attributes["http.request.resend_count"] = attemptNumber - 1;
  return { name: method, kind: SpanKind.CLIENT, attributes };
}

function messageAttributes(target: TargetUrl): RequestAttributes {
  const place = brokerPlace(target);
  const attributes: Attributes = {
    "messaging.system": target.scheme === "amqp" ? "rabbitmq" : "redis",
    "messaging.operation.name": "publish",
    "messaging.operation.type": "send",
  };
  if (typeof place === "string") return { name: "publish", kind: SpanKind.PRODUCER, attributes };
  const name = place.kind === "amqp" ? place.exchange || place.routingKey : place.stream;
  attributes["messaging.destination.name"] = name;
  return { name: `publish ${name}`, kind: SpanKind.PRODUCER, attributes };
}

/** What the result adds. */
export function resultAttributes(
  { outcome, status, errorClass, phases }: AttemptResult,
  kind: SpanKind,
): Attributes {
  const attributes: Attributes = { "redrive.outcome": outcome.kind };
  if (status !== null && status >= 100) attributes["http.response.status_code"] = status;
  else if (status !== null) {
    // The conventions have no name for the answer of a broker.
    const isMessage = kind === SpanKind.PRODUCER;
    const name = isMessage ? "redrive.broker.answer" : "rpc.response.status_code";
    attributes[name] = statusText(status);
  }
  if (outcome.kind !== "success") {
    const known = status === null ? undefined : statusText(status);
    attributes["error.type"] = errorClass ?? known ?? outcome.kind;
  }
  for (const [phase, name] of PHASES) {
    const ms = phases[phase];
    if (ms !== null) attributes[name] = ms;
  }
  return attributes;
}

const PHASES = [
  ["dnsMs", "redrive.phase.dns_ms"],
  ["connectMs", "redrive.phase.connect_ms"],
  ["tlsMs", "redrive.phase.tls_ms"],
  ["firstByteMs", "redrive.phase.first_byte_ms"],
] as const;
