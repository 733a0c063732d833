/** Fingerprint: what a key stands for. Two requests with one key must have the same. */
import { RedriveError } from "@redrive/core";
import { sha256 } from "../bytes/sha256.ts";
import type { ServedRequest } from "../serve/interceptor.ts";
import type { IdempotencyConfig } from "./idempotency-options.ts";

type Config = Pick<IdempotencyConfig, "fingerprintBody" | "fingerprintHeaders" | "maxRequestBytes">;

type Content = string | Uint8Array;

/** The fingerprint, or why the body could not be read. */
export async function fingerprintOf(
  request: ServedRequest,
  config: Config,
): Promise<{ readonly fingerprint: string } | { readonly failure: "too-large" | "incomplete" }> {
  const { fingerprintHeaders, fingerprintBody, maxRequestBytes } = config;
  const body =
    fingerprintBody === undefined
      ? await contentOf(request, maxRequestBytes)
      : { content: await fingerprintBody(request) };
  if ("failure" in body) return body;
  const headers = fingerprintHeaders.map((name) => [name, request.header(name) ?? null]);
  const parts = [request.method, request.target, JSON.stringify(headers), body.content];
  return { fingerprint: await sha256(parts) };
}

/** A parsed body is written as JSON: the same bytes are parsed to the same value. */
async function contentOf(
  request: ServedRequest,
  maxBytes: number,
): Promise<{ readonly content: Content } | { readonly failure: "too-large" | "incomplete" }> {
  const body = await request.body(maxBytes);
  if (body.kind === "bytes") return { content: body.bytes };
  if (body.kind === "parsed") return { content: JSON.stringify(body.value) ?? "" };
  if (body.kind !== "gone") return { failure: body.kind };
  const text =
    "the body was read before the idempotency key was checked, and was not kept: set fingerprintBody";
  throw new RedriveError("INVALID_ARGUMENT", text);
}
