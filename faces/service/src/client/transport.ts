/**
 * Transport: one call of the API over `fetch`. It does not retry: whoever wants that wraps it in the
 * library, under an idempotency key.
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
  /** Where the service is, e.g. `http://127.0.0.1:7337`. */
  readonly url: string;
  /** `rdv_...`; a service on loopback may need none. */
  readonly apiKey?: string;
  /** Default: the host's own. */
  readonly fetch?: typeof globalThis.fetch;
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

export interface ApiCall {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Segments; each is encoded. */
  readonly path: readonly string[];
  readonly query?: Query;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Statuses that are no error besides 2xx. */
  readonly accepts?: readonly number[];
}

export interface ApiResponse {
  readonly status: number;
  readonly headers: globalThis.Headers;
  readonly text: string;
}

export interface Transport {
  /** The answer's JSON; throws `RedriveError` for a refusal. */
  request<T>(call: ApiCall): Promise<T>;
  send(call: ApiCall): Promise<ApiResponse>;
}

/** Throws `INVALID_ARGUMENT` for a URL that is none. */
export function createTransport(options: ClientOptions): Transport {
  const { url, apiKey, fetch = globalThis.fetch } = options;
  if (!URL.canParse(url)) {
    const message = `url must be that of a Redrive service, got ${quote(url)}`;
    throw new RedriveError("INVALID_ARGUMENT", message);
  }

  async function send(call: ApiCall): Promise<ApiResponse> {
    const { method, body } = call;
    const response = await fetch(addressOf(url, call), {
      method,
      headers: headersOf(call, apiKey),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const { status, headers } = response;
    const text = await response.text();
    if (!response.ok && !call.accepts?.includes(status)) throw errorOf(status, text);
    return { status, headers, text };
  }

  return { send, request: async (call) => parseResponse(url, (await send(call)).text) };
}

/** Whatever answers 200 without JSON is no Redrive, or stands in front of one. */
export function parseResponse<T>(url: string, text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    const message = `url must be that of a Redrive service, but ${quote(url)} answers ${quote(text)}`;
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

function headersOf({ body, headers }: ApiCall, apiKey: string | undefined): Record<string, string> {
  return {
    ...headers,
    ...(body !== undefined && { "content-type": "application/json" }),
    ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
  };
}

/** The problem document as the error it was, or what can be said without one. */
function errorOf(status: number, text: string): Error {
  const problem = problemIn(text);
  const { code, detail, errors } = problem;
  if (typeof code !== "string" || typeof detail !== "string") {
    return new RedriveError("INTERNAL", `the service answered ${status} without saying why`);
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
