/**
 * `redrive/hand-off`: hands a call that was given up to the durable service. The service can retry for
 * hours; a process can only retry for seconds. The caller gets a ticket instead of a response.
 */
import { assertRange, quote, RedriveError, systemId } from "@redrive/core";
import { base64Of } from "../bytes/base64.ts";
import { notify } from "../call/call-event.ts";
import type { CallableRequest, Fallback, FallbackContext, HandOff } from "../call/options.ts";
import { createFetch } from "../http/fetch.ts";
import { outside } from "../http/incoming.ts";
import { absoluteUrl } from "../http/page-url.ts";

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
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** Time limit for the service to accept the task. 100 ms to 10 min. Default: 5,000. */
  readonly timeoutMs?: number | undefined;
  /** Called when a call could not be handed off. The call then ends with its own error. */
  readonly onRefused?: ((error: unknown, context: FallbackContext) => void) | undefined;
  /** The function that sends requests. Default: the global `fetch`. */
  readonly fetch?: typeof fetch | undefined;
  /** Creates keys for calls that have none. Default: random UUIDs. */
  readonly ids?: (() => string) | undefined;
}

/** The service sets these headers itself and refuses a task that has them. */
const EXCLUDED_HEADERS =
  /^(connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|host|content-length|idempotency-key|proxy-.*|redrive-.*|webhook-(id|timestamp|signature))$/;

/** For a destination's `onExhausted`. A call that cannot be handed off ends with its own error. */
export function handOff(options: HandOffOptions): Fallback<never> {
  const { timeoutMs = 5000, onRefused, ids = systemId } = options;
  const tasksUrl = tasksUrlOf(options.url);
  assertRange("timeoutMs", timeoutMs, 100, 600_000);
  const policy = { maxAttempts: 3, totalBudgetMs: timeoutMs, attemptTimeoutMs: timeoutMs };
  const http = createFetch(policy, { headers: false, fetch: options.fetch });

  async function create({ request, idempotencyKey = ids() }: HandOff): Promise<Ticket> {
    const body = JSON.stringify({ ...(await taskOf(request, options)), idempotencyKey });
    const headers = headersOf(options);
    // The key makes a second creation harmless. The layer and deadline of the call do not apply.
    const init = { method: "POST", headers, body, redrive: { idempotent: true } };
    const response = await outside(() => http(tasksUrl, init));
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
      throw error;
    }
    return (offer.request.isFetch ? responseOf(ticket) : ticket) as never;
  };
}

function tasksUrlOf(url: string): string {
  if (!/^https?:/.test(url) || !URL.canParse(url)) {
    const text = `url must be the service's http or https address, got ${quote(url)}`;
    throw new RedriveError("INVALID_ARGUMENT", text);
  }
  return new URL("retry-tasks", url.endsWith("/") ? url : `${url}/`).href;
}

function headersOf({ apiKey }: HandOffOptions): Record<string, string> {
  const json = { "content-type": "application/json" };
  return apiKey === undefined ? json : { ...json, authorization: `Bearer ${apiKey}` };
}

async function taskOf(request: CallableRequest, options: HandOffOptions): Promise<object> {
  const { url, method = "POST" } = request;
  const { policyId, destination, labels } = options;
  const body = typeof request.body === "function" ? await request.body() : request.body;
  // A `Response` sets the content type of its body, as a request would.
  const carried = new Response(body ?? null, { headers: new Headers(request.headers) });
  const headers = [...carried.headers].filter(([name]) => !EXCLUDED_HEADERS.test(name));
  return {
    targetUrl: absoluteUrl(url).href,
    method: method.toUpperCase(),
    headers: Object.fromEntries(headers),
    ...(carried.body && { bodyBase64: base64Of(new Uint8Array(await carried.arrayBuffer())) }),
    policyId,
    destination,
    labels,
  };
}

async function readTicket(response: Response, tasksUrl: string): Promise<Ticket> {
  const text = await response.text();
  const { taskId, status, detail } = parsed(text);
  if (response.ok && typeof taskId === "string") {
    const location = new URL(response.headers.get("location") ?? `retry-tasks/${taskId}`, tasksUrl);
    return { taskId, status: String(status), location: location.href };
  }
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
