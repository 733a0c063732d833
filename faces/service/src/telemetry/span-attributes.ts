/**
 * Span attributes: what a span says about an attempt, with the names of OpenTelemetry's semantic
 * conventions (HTTP 1.23, RPC release candidate) and our own, which begin with `redrive.`. They hold no
 * header, no body and no path or query of a URL, because those may be secrets.
 */
import type { Attributes } from "@opentelemetry/api";
import { statusText } from "@redrive/core";
import { parseTargetUrl, portOf } from "../deliver/address-guard/target.ts";
import type { AttemptResult } from "../deliver/attempt-result.ts";
import type { StartedTask } from "../model/batch.ts";

/** What is known before the attempt. */
export interface RequestAttributes {
  /** The name of the span: the method of HTTP or of gRPC. */
  readonly name: string;
  readonly attributes: Attributes;
}

export function requestAttributes(task: StartedTask): RequestAttributes {
  const { taskId, tenantId, destination, attemptNumber, policyId, targetUrl, method } = task;
  const url = parseTargetUrl(targetUrl);
  const own: Attributes = {
    "redrive.task.id": taskId,
    "redrive.tenant": tenantId,
    "redrive.destination": destination,
    "redrive.policy": policyId,
    "redrive.attempt": attemptNumber,
  };
  if (url === undefined) return { name: method, attributes: own };
  const server = { "server.address": url.hostname, "server.port": portOf(url) };
  if (targetUrl.startsWith("grpc")) {
    const name = url.pathname.slice(1);
    const rpc = { "rpc.system.name": "grpc", "rpc.method": name };
    return { name, attributes: { ...own, ...server, ...rpc } };
  }
  const http: Attributes = {
    "http.request.method": method,
    "url.scheme": url.protocol.slice(0, -1),
    "url.full": `${url.origin}/REDACTED`,
  };
  if (attemptNumber > 1) http["http.request.resend_count"] = attemptNumber - 1;
  return { name: method, attributes: { ...own, ...server, ...http } };
}

/** What the result adds. */
export function resultAttributes({
  outcome,
  status,
  errorClass,
  phases,
}: AttemptResult): Attributes {
  const attributes: Attributes = { "redrive.outcome": outcome.kind };
  if (status !== null) {
    const name = status < 100 ? "rpc.response.status_code" : "http.response.status_code";
    attributes[name] = status < 100 ? statusText(status) : status;
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
