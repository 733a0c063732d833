/**
 * Replayable request: the arguments of a fetch, read once, so that every attempt can send the same
 * request.
 */
import { systemId } from "@redrive/core";
import type { RunOptions } from "../call/options.ts";
import type { FetchOptions, RedriveInit } from "./fetch-options.ts";
import { type ReplayableBody, replayableBody, requestBody } from "./replayable-body.ts";

export interface ReplayableRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly body: ReplayableBody;
  readonly signal: AbortSignal | undefined;
  readonly init: Omit<RequestInit, "body" | "headers" | "signal">;
  readonly overrides: RunOptions<Response>;
  readonly idempotencyKey: string | undefined;
}

export async function readRequest(
  input: string | URL | Request,
  init: RedriveInit,
  options: FetchOptions,
): Promise<ReplayableRequest> {
  const base = input instanceof Request ? input : undefined;
  const { body: givenBody, headers: givenHeaders, redrive = {}, ...rest } = init;
  // As in fetch, null removes the signal of the `Request`.
  const givenSignal = rest.signal === undefined ? (redrive.signal ?? base?.signal) : rest.signal;
  const signal = givenSignal ?? undefined;
  const method = (init.method ?? base?.method ?? "GET").toUpperCase();
  const headers = new Headers(givenHeaders ?? base?.headers);
  const body =
    givenBody === undefined && base
      ? await requestBody(base, signal)
      : await replayableBody(givenBody);
  if (body.contentType !== undefined) headers.set("content-type", body.contentType);
  return {
    url: base?.url ?? String(input),
    method,
    headers,
    body,
    signal,
    init: base === undefined ? rest : { ...initOf(base), ...rest },
    overrides: redrive,
    idempotencyKey: keyFor(method, headers, redrive, options),
  };
}

/** The fields of a `Request` other than URL, method, headers and body. */
function initOf(request: Request): RequestInit {
  const { cache, credentials, integrity, keepalive, mode, redirect, referrerPolicy } = request;
  const common = { cache, credentials, integrity, keepalive, redirect, referrerPolicy };
  return mode === "navigate" ? common : { ...common, mode };
}

function keyFor(
  method: string,
  headers: Headers,
  redrive: RunOptions<Response>,
  { idempotencyKey, idempotencyHeader = "Idempotency-Key", ids = systemId }: FetchOptions,
): string | undefined {
  const isAutomatic = idempotencyKey === "auto" && (method === "POST" || method === "PATCH");
  const key =
    redrive.idempotencyKey || headers.get(idempotencyHeader) || (isAutomatic ? ids() : undefined);
  if (key !== undefined) headers.set(idempotencyHeader, key);
  return key;
}
