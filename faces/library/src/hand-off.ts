/**
 * `redrive/hand-off`: hands a call that was given up to the durable service. The service can retry for
 * hours; a process can only retry for seconds. The caller gets a ticket instead of a response.
 */
import { assertRange, type Clock, quote, RedriveError, systemId } from "@redrive/core";
import { notify } from "./call/call-event.ts";
import type { CallableRequest, Fallback, FallbackContext, HandOff } from "./call/options.ts";
import { base64Of } from "./http/base64.ts";
import { absoluteUrl, createFetch } from "./http/fetch.ts";
import { outside } from "./http/incoming.ts";

/** The task that the service has accepted. */
export interface Ticket {
  readonly taskId: string;
  readonly status: string;
  /** URL of the task, to query its status. */
  readonly location: string;
}

export interface HandOffOptions {
  /** URL of the service, such as `http://127.0.0.1:7337`. */
  readonly url: string;
  /** API key, if the service requires one. */
  readonly apiKey?: string | undefined;
  /** The service's policy for its attempts. Default: `background`. */
  readonly policyId?: string | undefined;
  /** Destination of the task. Default: the origin of its URL. */
  readonly destination?: string | undefined;
  /** Labels of every task. Those of a call's `request` are added, and win. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** Where the service posts the end of every task; that of a call's `request` wins. Default: nowhere. */
  readonly callbackUrl?: string | undefined;
  /**
   * Time limit for the service to accept the task, and to accept the upload of a large body before: each
   * gets up to three attempts within it. 100 ms to 10 min. Default: 5,000.
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Called with the reason when a call could not be handed off. The call then ends as it would without a
   * hand-off, and `handOffErrorOf` its error is the reason.
   */
  readonly onRefused?: ((error: unknown, context: FallbackContext) => void) | undefined;
  /** The function that sends requests. Default: the global `fetch`. */
  readonly fetch?: typeof fetch | undefined;
  /** Creates keys for calls that have none. Default: random UUIDs. */
  readonly ids?: (() => string) | undefined;
  /** Of the attempts to reach the service. Default: the system's. */
  readonly clock?: Clock | undefined;
}

/** The service sets these headers itself and refuses a task that has them. */
const EXCLUDED_HEADERS =
  /^(connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|host|content-length|idempotency-key|proxy-.*|redrive-.*|webhook-(id|timestamp|signature))$/;

/** Larger bodies are uploaded first. This is also what the service keeps in a task by default. */
const MAX_INLINE_BYTES = 65_536;

/**
 * Why a call that was given up could not be handed off either; undefined if it was not tried. Takes what the
 * call rejected with, which has the reason, the attempts and the cause of the call itself.
 */
export function handOffErrorOf(error: unknown): unknown {
  return (Object(error) as { handOffError?: unknown }).handOffError;
}

/** The error of the call stays what it is, and gets the second cause as a field that logs show. */
function keepBoth(error: unknown, handOffError: unknown): void {
  if (!(error instanceof Error) || !Object.isExtensible(error)) return;
  Object.defineProperty(error, "handOffError", {
    value: handOffError,
    enumerable: true,
    configurable: true,
  });
}

/** For a destination's `onExhausted`. A call that cannot be handed off ends as it would without. */
export function handOff(options: HandOffOptions): Fallback<never> {
  const { timeoutMs = 5000, onRefused, ids = systemId } = options;
  const serviceUrl = serviceUrlOf(options.url);
  const tasksUrl = new URL("retry-tasks", serviceUrl);
  assertRange("timeoutMs", timeoutMs, 100, 600_000);
  const limits = { totalBudgetMs: timeoutMs, attemptTimeoutMs: timeoutMs };
  const policy = { maxAttempts: 3, ...limits, clock: options.clock };
  const http = createFetch(policy, { headers: false, fetch: options.fetch });

  /** A second request is harmless: a task has its key, and an unused body is removed. */
  function post(url: URL, contentType: string, body: string | Uint8Array): Promise<Response> {
    const headers = headersOf(options, contentType);
    const init = { method: "POST", headers, body: body as BodyInit, redrive: { idempotent: true } };
    // The layer and deadline of the call do not apply.
    return outside(() => http(url, init));
  }

  async function contentOf(body: Uint8Array | undefined): Promise<object> {
    if (body === undefined) return {};
    if (body.length <= MAX_INLINE_BYTES) return { bodyBase64: base64Of(body) };
    const uploaded = await post(new URL("bodies", serviceUrl), "application/octet-stream", body);
    const { bodyRef } = await readAnswer(uploaded, "bodyRef");
    return { bodyRef };
  }

  async function create({ request, idempotencyKey = ids() }: HandOff): Promise<Ticket> {
    const { body, ...task } = await taskOf(request, options);
    const created = { ...task, ...(await contentOf(body)), idempotencyKey };
    const response = await post(tasksUrl, "application/json", JSON.stringify(created));
    return readTicket(response, tasksUrl);
  }

  return async (error, context) => {
    const { handOff: offer } = context;
    if (offer === undefined) throw error;
    let ticket: Ticket;
    try {
      ticket = await create(offer);
    } catch (refusal) {
      notify((reason: unknown) => onRefused?.(reason, context), refusal);
      keepBoth(error, refusal);
      throw error;
    }
    return (offer.request.isFetch ? responseOf(ticket) : ticket) as never;
  };
}

function serviceUrlOf(url: string): URL {
  if (!/^https?:/.test(url) || !URL.canParse(url)) {
    const text = `url must be the service's http or https address, got ${quote(url)}`;
    throw new RedriveError("INVALID_ARGUMENT", text);
  }
  return new URL(url.endsWith("/") ? url : `${url}/`);
}

function headersOf({ apiKey }: HandOffOptions, contentType: string): Record<string, string> {
  const type = { "content-type": contentType };
  return apiKey === undefined ? type : { ...type, authorization: `Bearer ${apiKey}` };
}

/** The fields of a task, and its body as bytes. */
interface HandedTask {
  readonly [field: string]: unknown;
  readonly body: Uint8Array | undefined;
}

async function taskOf(request: CallableRequest, options: HandOffOptions): Promise<HandedTask> {
  const { url, method = "POST" } = request;
  const { policyId, destination } = options;
  const { callbackUrl = options.callbackUrl } = request;
  const labels = (options.labels ?? request.labels) && { ...options.labels, ...request.labels };
  const body = typeof request.body === "function" ? await request.body() : request.body;
  // A `Response` sets the content type of its body, as a request would.
  const carried = new Response(body ?? null, { headers: new Headers(request.headers) });
  const headers = [...carried.headers].filter(([name]) => !EXCLUDED_HEADERS.test(name));
  return {
    targetUrl: absoluteUrl(url).href,
    method: method.toUpperCase(),
    headers: Object.fromEntries(headers),
    body: carried.body ? new Uint8Array(await carried.arrayBuffer()) : undefined,
    policyId,
    destination,
    labels,
    callbackUrl,
  };
}

async function readTicket(response: Response, tasksUrl: URL): Promise<Ticket> {
  const { taskId, status } = await readAnswer(response, "taskId");
  const location = new URL(response.headers.get("location") ?? `retry-tasks/${taskId}`, tasksUrl);
  return { taskId: String(taskId), status: String(status), location: location.href };
}

/** The fields of an answer of the service. Throws if it is an error, or has no text in `field`. */
async function readAnswer(response: Response, field: string): Promise<Record<string, unknown>> {
  const answer = parsed(await response.text());
  if (response.ok && typeof answer[field] === "string") return answer;
  const { detail } = answer;
  const why = typeof detail === "string" ? `: ${detail}` : "";
  throw new RedriveError(
    "HAND_OFF_REFUSED",
    `the service did not take the call over, it answered ${response.status}${why}`,
  );
}

function parsed(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text)) as Record<string, unknown>;
  } catch {
    return {};
  }
}

function responseOf(ticket: Ticket): Response {
  return Response.json(ticket, { status: 202, headers: { location: ticket.location } });
}
