/**
 * Transport: one API call over `fetch`. A call that may be repeated (a read, a PUT, a DELETE, a create with a
 * key) is retried while the service restarts or has no store. Errors carry the status of the response and
 * its hint, so that a layer around the client can decide as well.
 */
import {
  type CallHistory,
  type Clock,
  causedError,
  classifyError,
  DocumentError,
  decideUnguarded,
  type ErrorCode,
  type FieldProblem,
  type Hint,
  headerHint,
  isObject,
  type Outcome,
  type Policy,
  type PolicyDocument,
  quote,
  type Random,
  RedriveError,
  type RetryDecision,
  resolvePolicy,
  type StopDecision,
  statusOutcome,
  systemClock,
  systemRandom,
} from "@redrive/core";

export interface ClientOptions {
  /** The address of the service, e.g. `http://127.0.0.1:7337`. */
  readonly url: string;
  /** `rdv_...`. A service on loopback may not require one. */
  readonly apiKey?: string;
  /** Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
  /** How calls that may be repeated are retried; false: not. Default: 5 attempts within 15 s. */
  readonly retry?: PolicyDocument | false;
  /** For tests. Default: the system's. */
  readonly clock?: Clock;
  readonly random?: Random;
}

/** Outlasts a restart of the service or of its database. */
const RETRY: PolicyDocument = { initialDelayMs: 200, maxDelayMs: 4000, totalBudgetMs: 15_000 };

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

interface ApiCall {
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
  /** A POST that has an idempotency key. Other methods are always repeatable. */
  readonly isKeyed?: boolean;
}

/** A body that is sent unchanged. A stream is sent in chunks and cannot be repeated. */
export type RawBody = Uint8Array<ArrayBuffer> | Blob | ReadableStream<Uint8Array>;

interface ApiResponse {
  readonly status: number;
  readonly headers: globalThis.Headers;
  readonly text: string;
}

export interface Transport {
  /**
   * Returns the JSON of the response; throws `RedriveError` for an error response. `field`: a field that
   * every such response of Redrive has, so that the JSON of another program is refused.
   */
  request<T>(call: ApiCall, field: keyof T & string): Promise<T>;
  send(call: ApiCall): Promise<ApiResponse>;
  /** Returns the response with its body unread; throws `RedriveError` for an error response. */
  open(call: ApiCall, signal?: AbortSignal): Promise<Response>;
}

/** Throws `INVALID_ARGUMENT` for an invalid URL. */
export function createTransport(options: ClientOptions): Transport {
  const { url, apiKey, fetch = globalThis.fetch, retry = RETRY } = options;
  const { clock = systemClock, random = systemRandom } = options;
  const policy = resolvePolicy(retry === false ? { maxAttempts: 1 } : retry);
  if (!URL.canParse(url)) {
    const message = `url must be the address of a Redrive service, got ${quote(url)}`;
    throw new RedriveError("INVALID_ARGUMENT", message);
  }

  function start(call: ApiCall, signal?: AbortSignal): Promise<Response> {
    const { method, body, bytes } = call;
    const init: RequestInit = {
      method,
      headers: headersOf(call, apiKey),
      ...(body !== undefined && { body: JSON.stringify(body) }),
      // Streams need this field.
      ...(bytes !== undefined && { body: bytes, duplex: "half" }),
      ...(signal !== undefined && { signal }),
    };
    return fetch(addressOf(url, call), init);
  }

  async function sendOnce(call: ApiCall): Promise<ApiResponse> {
    const response = await start(call);
    const { status, headers } = response;
    const text = await response.text();
    if (!response.ok && !call.accepts?.includes(status)) throw errorOf(url, response, text);
    return { status, headers, text };
  }

  async function send(call: ApiCall): Promise<ApiResponse> {
    const startedAt = clock.now();
    const stream = random.fork("client");
    let previousDelayMs = 0;
    for (let attempt = 1; ; attempt++) {
      try {
        return await sendOnce(call);
      } catch (error) {
        const history = { attempt, startedAt, previousDelayMs };
        const step = nextStep(policy, call, history, error, clock.now(), stream);
        if (step.kind === "stop") throw error;
        previousDelayMs = step.ownDelayMs;
        await clock.sleep(step.delayMs);
      }
    }
  }

  async function open(call: ApiCall, signal?: AbortSignal): Promise<Response> {
    const response = await start(call, signal);
    if (response.ok) return expectType(response, call);
    throw errorOf(url, response, await response.text());
  }

  /** Another program ignores `accept`. */
  function expectType(response: Response, call: ApiCall): Response {
    const wanted = call.headers?.["accept"] ?? "";
    const type = response.headers.get("content-type") ?? "";
    if (type.startsWith(wanted)) return response;
    throw otherProgram(url, type);
  }

  return {
    send,
    open,
    request: async <T>(call: ApiCall, field: keyof T & string) =>
      parseResponse<T>(url, (await send(call)).text, field),
  };
}

/** A 200 response without this field comes from a proxy or from another program, not from Redrive. */
export function parseResponse<T>(url: string, text: string, field: keyof T & string): T {
  const parsed = parseJson(url, text);
  if (isObject(parsed) && Object.hasOwn(parsed, field)) return parsed as T;
  throw otherProgram(url, text);
}

function parseJson(url: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw otherProgram(url, text, cause);
  }
}

function otherProgram(url: string, text: string, cause?: unknown): RedriveError {
  const message = `url must be the address of a Redrive service, but ${quote(url)} returned ${quote(text)}`;
  return causedError("INVALID_ARGUMENT", message, cause);
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

/** Core's decision after a failed call. */
function nextStep(
  policy: Policy,
  { method, isKeyed = false, bytes }: ApiCall,
  history: CallHistory,
  error: unknown,
  now: number,
  random: Random,
): RetryDecision | StopDecision {
  // A stream is empty after it was sent.
  const isOnce = bytes instanceof ReadableStream || (method === "POST" && !isKeyed);
  const request = { method, idempotent: !isOnce };
  return decideUnguarded(policy, request, history, outcomeOf(error), now, random);
}

function outcomeOf(error: unknown): Outcome {
  if (!(error instanceof RedriveError)) return classifyError(error, false);
  const { status, retryAfterMs } = error;
  // Another program answered: its address is wrong.
  if (status === undefined) return { kind: "fault" };
  return statusOutcome(status, retryAfterMs);
}

/** The error that the problem document describes, or a general one without such a document. */
function errorOf(url: string, { status, headers }: Response, text: string): Error {
  const { code, detail, errors } = problemIn(text);
  const hint: Hint = headerHint((name) => headers.get(name), status, systemClock.now()) ?? {};
  const details = { status, retryAfterMs: hint.retryAfterMs };
  if (typeof code !== "string" || typeof detail !== "string") {
    const message = `${quote(url)} returned ${status} without a reason of Redrive: is it the address of a Redrive service?`;
    return new RedriveError("INTERNAL", message, details);
  }
  if (!Array.isArray(errors)) return new RedriveError(code as ErrorCode, detail, details);
  const problems = errors.map((one: FieldProblem) => ({ ...one, value: undefined }));
  return new DocumentError(code as ErrorCode, problems, details);
}

function problemIn(text: string): Readonly<Record<string, unknown>> {
  try {
    const problem: unknown = JSON.parse(text);
    return isObject(problem) ? problem : {};
  } catch {
    return {};
  }
}
