/**
 * Transport: one API call over `fetch`. It does not retry; to retry, wrap it with the library and
 * send an idempotency key.
 */
import {
  causedError,
  DocumentError,
  type ErrorCode,
  type FieldProblem,
  isObject,
  quote,
  RedriveError,
} from "@redrive/core";

export interface ClientOptions {
  /** The address of the service, e.g. `http://127.0.0.1:7337`. */
  readonly url: string;
  /** `rdv_...`. A service on loopback may not require one. */
  readonly apiKey?: string;
  /** Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

export interface ApiCall {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Path segments. Each one is percent-encoded. */
  readonly path: readonly string[];
  readonly query?: Query;
  readonly body?: unknown;
  /** Bytes instead of JSON. */
  readonly bytes?: RawBody;
  readonly headers?: Readonly<Record<string, string>>;
  /** Statuses besides 2xx that are not errors. */
  readonly accepts?: readonly number[];
}

/** A body that is sent unchanged. A stream is sent in chunks and cannot be repeated. */
export type RawBody = Uint8Array<ArrayBuffer> | Blob | ReadableStream<Uint8Array>;

export interface ApiResponse {
  readonly status: number;
  readonly headers: globalThis.Headers;
  readonly text: string;
}

export interface Transport {
  /** Returns the JSON of the response; throws `RedriveError` for an error response. */
  request<T>(call: ApiCall): Promise<T>;
  send(call: ApiCall): Promise<ApiResponse>;
  /** The bytes of a response that lasts. */
  open(call: ApiCall, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
}

/** Throws `INVALID_ARGUMENT` for an invalid URL. */
export function createTransport(options: ClientOptions): Transport {
  const { url, apiKey, fetch = globalThis.fetch } = options;
  if (!URL.canParse(url)) {
    const message = `url must be the address of a Redrive service, got ${quote(url)}`;
    throw new RedriveError("INVALID_ARGUMENT", message);
  }

  function start(call: ApiCall): Promise<Response> {
    const { method, body, bytes } = call;
    const init: RequestInit = {
      method,
      headers: headersOf(call, apiKey),
      ...(body !== undefined && { body: JSON.stringify(body) }),
      // Streams need this field.
      ...(bytes !== undefined && { body: bytes, duplex: "half" }),
    };
    return fetch(addressOf(url, call), init);
  }

  async function send(call: ApiCall): Promise<ApiResponse> {
    const response = await start(call);
    const { status, headers } = response;
    const text = await response.text();
    if (!response.ok && !call.accepts?.includes(status)) throw errorOf(status, text);
    return { status, headers, text };
  }

  async function open(call: ApiCall, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const response = await fetch(addressOf(url, call), {
      method: call.method,
      headers: headersOf(call, apiKey),
      ...(signal !== undefined && { signal }),
    });
    if (!response.ok) throw errorOf(response.status, await response.text());
    return (response.body ?? []) as AsyncIterable<Uint8Array>;
  }

  return { send, open, request: async (call) => parseResponse(url, (await send(call)).text) };
}

/** A 200 response without JSON comes from a proxy or from another program, not from Redrive. */
export function parseResponse<T>(url: string, text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    const message = `url must be the address of a Redrive service, but ${quote(url)} returned ${quote(text)}`;
    throw causedError("INVALID_ARGUMENT", message, cause);
  }
}

function addressOf(url: string, { path, query = {} }: ApiCall): string {
  const address = new URL(path.map(encodeURIComponent).join("/"), url.replace(/\/*$/, "/"));
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) address.searchParams.set(name, String(value));
  }
  return address.href;
}

function headersOf(
  { body, bytes, headers }: ApiCall,
  apiKey: string | undefined,
): Record<string, string> {
  return {
    ...(bytes !== undefined && { "content-type": "application/octet-stream" }),
    ...headers,
    ...(body !== undefined && { "content-type": "application/json" }),
    ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
  };
}

/** The error that the problem document describes, or a general one without such a document. */
function errorOf(status: number, text: string): Error {
  const problem = problemIn(text);
  const { code, detail, errors } = problem;
  if (typeof code !== "string" || typeof detail !== "string") {
    return new RedriveError("INTERNAL", `the service returned ${status} without a reason`);
  }
  if (!Array.isArray(errors)) return new RedriveError(code as ErrorCode, detail);
  const problems = errors.map((one: FieldProblem) => ({ ...one, value: undefined }));
  return new DocumentError(code as ErrorCode, problems);
}

function problemIn(text: string): Readonly<Record<string, unknown>> {
  try {
    const problem: unknown = JSON.parse(text);
    return isObject(problem) ? problem : {};
  } catch {
    return {};
  }
}
