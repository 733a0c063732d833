/**
 * `redrive/hand-off`: gives a call that was given up to the durable service, which goes on trying
 * for hours where a process could only for seconds. The caller gets a ticket in place of an answer.
 */
import { assertRange, quote, RedriveError, systemId } from "@redrive/core";
import { notify } from "./events.ts";
import { absolute, createFetch } from "./fetch.ts";
import { outside } from "./incoming.ts";
import type { CallableRequest, Fallback, FallbackContext, HandOver } from "./options.ts";

/** What the service has promised to do. */
export interface Ticket {
  readonly taskId: string;
  readonly status: string;
  /** Where to ask how it goes. */
  readonly location: string;
}

export interface HandOffOptions {
  /** Where the service is, such as `http://127.0.0.1:7337`. */
  readonly url: string;
  /** A key of the service, where it asks for one. */
  readonly apiKey?: string | undefined;
  /** A policy that the service knows, for its own attempts. Default: the service's `background`. */
  readonly policyId?: string | undefined;
  /** What the task contends for. Default: the origin of its URL. */
  readonly destination?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** How long the service may take to accept. Default: 5,000. 100 ms to 10 min. */
  readonly timeoutMs?: number | undefined;
  /** Told when a call could not be handed over; its own ending then stands. */
  readonly onRefused?: ((error: unknown, context: FallbackContext) => void) | undefined;
  /** What really fetches. Default: the global one. */
  readonly fetch?: typeof fetch | undefined;
  /** Makes keys for calls that have none. Default: random UUIDs. */
  readonly ids?: (() => string) | undefined;
}

/** The service sets these itself, and refuses a task that brings them. */
const NOT_HANDED_OVER =
  /^(connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|host|content-length|idempotency-key|proxy-.*|redrive-.*|webhook-(id|timestamp|signature))$/;

/** Characters at a time: arguments of a call are limited. */
const CHUNK = 8192;

/** For a destination's `onExhausted`. What cannot be handed over ends as if this were not there. */
export function handOff(options: HandOffOptions): Fallback<never> {
  const { timeoutMs = 5000, onRefused, ids = systemId } = options;
  const place = tasksUrl(options.url);
  assertRange("timeoutMs", timeoutMs, 100, 600_000);
  const policy = { maxAttempts: 3, totalBudgetMs: timeoutMs, attemptTimeoutMs: timeoutMs };
  const http = createFetch(policy, { headers: false, fetch: options.fetch });

  async function create({ request, idempotencyKey = ids() }: HandOver): Promise<Ticket> {
    const body = JSON.stringify({ ...(await taskOf(request, options)), idempotencyKey });
    const headers = headersOf(options);
    // The key makes a second creation harmless, whatever layer and deadline the call ran under.
    const init = { method: "POST", headers, body, redrive: { idempotent: true } };
    const answer = await outside(() => http(place, init));
    return readTicket(answer, place);
  }

  return async (error, context) => {
    const { handOver } = context;
    if (handOver === undefined) throw error;
    let ticket: Ticket;
    try {
      ticket = await create(handOver);
    } catch (refusal) {
      notify((told: unknown) => onRefused?.(told, context), refusal);
      throw error;
    }
    return (handOver.request.isFetch ? responseOf(ticket) : ticket) as never;
  };
}

function tasksUrl(url: string): string {
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
  // A response knows, as a request would, which content type a kind of body brings along.
  const carried = new Response(body ?? null, { headers: new Headers(request.headers) });
  const headers = [...carried.headers].filter(([name]) => !NOT_HANDED_OVER.test(name));
  return {
    targetUrl: absolute(url).href,
    method: method.toUpperCase(),
    headers: Object.fromEntries(headers),
    ...(carried.body && { bodyBase64: base64Of(new Uint8Array(await carried.arrayBuffer())) }),
    policyId,
    destination,
    labels,
  };
}

function base64Of(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += CHUNK) {
    binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  }
  return btoa(binary);
}

async function readTicket(answer: Response, place: string): Promise<Ticket> {
  const text = await answer.text();
  const { taskId, status, detail } = parsed(text);
  if (answer.ok && typeof taskId === "string") {
    const location = new URL(answer.headers.get("location") ?? `retry-tasks/${taskId}`, place);
    return { taskId, status: String(status), location: location.href };
  }
  const why = typeof detail === "string" ? `: ${detail}` : "";
  throw new RedriveError(
    "HAND_OFF_REFUSED",
    `the service did not take the call over, it answered ${answer.status}${why}`,
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
