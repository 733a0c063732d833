/** Fingerprint: what a key stands for. Two requests with one key must have the same. */
import { RedriveError } from "@redrive/core";
import { type HashPart, sha256 } from "../bytes/sha256.ts";
import type { ServedBody, ServedRequest } from "../serve/interceptor.ts";
import type { IdempotencyConfig } from "./idempotency-options.ts";

type Config = Pick<IdempotencyConfig, "fingerprintBody" | "fingerprintHeaders" | "maxRequestBytes">;

/** The fingerprint, or why the body could not be read. */
export async function fingerprintOf(
  request: ServedRequest,
  config: Config,
): Promise<{ readonly fingerprint: string } | { readonly failure: "too-large" | "incomplete" }> {
  const { fingerprintHeaders, fingerprintBody, maxRequestBytes } = config;
  const body =
    fingerprintBody === undefined
      ? contentOf(await request.body(maxRequestBytes))
      : { content: await fingerprintBody(request) };
  if ("failure" in body) return body;
  const headers = fingerprintHeaders.map((name) => [name, request.header(name) ?? null]);
  const parts = [request.method, request.target, JSON.stringify(headers), body.content];
  return { fingerprint: await sha256(parts) };
}

/** A parsed body is written as JSON: the same bytes are parsed to the same value. */
function contentOf(
  body: ServedBody,
): { readonly content: HashPart } | { readonly failure: "too-large" | "incomplete" } {
  if (body.kind === "bytes") return { content: body.bytes };
  if (body.kind === "parsed") return { content: JSON.stringify(body.value) ?? "" };
  if (body.kind !== "gone") return { failure: body.kind };
  const text =
    "the body was read before the idempotency key was checked, and was not kept: set fingerprintBody";
  throw new RedriveError("INVALID_ARGUMENT", text);
}
