/**
 * Served fetch: a `Request` in the form that interceptors read, and the `Response` of its handler, which is
 * held until it is complete.
 */
import {
  enterRun,
  type HandlerRun,
  type PlainResponse,
  type ServedBody,
  type ServedRequest,
} from "./interceptor.ts";
import { closesConnection, joined, sameBytes } from "./node-http.ts";

/** `native` is what the framework passes to its handlers. */
export function servedFetch<Native>(native: Native, request: Request): ServedRequest<Native> {
  const { pathname, search } = new URL(request.url);
  return {
    method: request.method,
    target: pathname + search,
    header: (name) => request.headers.get(name) ?? undefined,
    body: (maxBytes) => fetchBody(request, maxBytes),
    onGone: (listener) => request.signal.addEventListener("abort", listener),
    native,
  };
}

type BodyReader = ReadableStreamDefaultReader<Uint8Array>;

async function fetchBody(request: Request, maxBytes: number): Promise<ServedBody> {
  if (request.bodyUsed) return { kind: "gone" };
  if (Number(request.headers.get("content-length")) > maxBytes) {
    return await discardRest(request, request.body?.getReader());
  }
  // Reads a copy, so that the handler can still read the body.
  const reader = request.clone().body?.getReader();
  const body = await readBody(reader, maxBytes).catch(() => INCOMPLETE);
  if (body.kind !== "too-large") return body;
  // A copy that nobody reads would keep the rest.
  void request.body?.cancel().catch(() => undefined);
  return await discardRest(request, reader);
}

const INCOMPLETE: ServedBody = { kind: "incomplete" };

/** A client may read the response only after it has sent everything. So the rest is read and forgotten. */
async function discardRest(
  { headers }: Request,
  reader: BodyReader | undefined,
): Promise<ServedBody> {
  async function read(): Promise<void> {
    while ((await reader?.read())?.done === false);
  }
  // The client may close its connection, because it has the response.
  const discarded = read().catch(() => undefined);
  if (closesConnection(headers.get("connection"))) await discarded;
  return { kind: "too-large" };
}

async function readBody(reader: BodyReader | undefined, maxBytes: number): Promise<ServedBody> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (let next = await reader?.read(); next?.value !== undefined; next = await reader?.read()) {
    chunks.push(next.value);
    length += next.value.length;
    if (length > maxBytes) return { kind: "too-large" };
  }
  return { kind: "bytes", bytes: joined(chunks, length) };
}

// The `Response` of a handler is held until it is complete, or passed on if it is large.

export function toResponse({ status, headers, body }: PlainResponse): Response {
  // A status such as 204 allows no body, not even an empty one.
  const init = { status, headers: headers as unknown as [string, string][] };
  return new Response(body.length === 0 ? null : (body as BodyInit), init);
}

/**
 * The answers that say that the handler did not run. A middleware may copy a response, as Hono does to add
 * headers, so that an answer is known by its request too, and then recognized by its content.
 */
const refusals = /* @__PURE__ */ new WeakMap<object, PlainResponse>();

/** The answer of an interceptor. An interceptor in front of this one learns whether the handler ran. */
export function answerRequest(request: Request, answer: PlainResponse): Response {
  const response = toResponse(answer);
  if (answer.notExecuted) {
    refusals.set(response, answer);
    refusals.set(request, answer);
  }
  return response;
}

function isRefusal(request: Request, response: Response, bytes: Uint8Array): boolean {
  if (refusals.has(response)) return true;
  const refusal = refusals.get(request);
  return refusal?.status === response.status && sameBytes(refusal.body, bytes);
}

/** A response as the adapter got it. */
interface HandlerResponse {
  readonly request: Request;
  readonly response: Response;
  /** The handler says that it had no effect. */
  readonly notExecuted?: boolean;
}

/** The response to send instead of the handler's. Throws if its body cannot be read. */
export async function finishResponse(given: HandlerResponse, run: HandlerRun): Promise<Response> {
  const { request, response } = given;
  const { status, body } = response;
  if (status < 200 || (run.holdBytes === 0 && !(run.awaitsBody && body))) {
    run.sent(status);
    return response;
  }
  const reader = body?.getReader();
  const held = await read(reader, run);
  if (held.rest !== undefined) return streamed(response, held, run);
  const bytes = joined(held.chunks, held.length);
  const notExecuted = given.notExecuted || isRefusal(request, response, bytes);
  const complete = { status, headers: [...response.headers], body: bytes, notExecuted };
  const answer = await run.respond(complete);
  return answer === complete ? copyOf(response, bytes) : toResponse(answer);
}

interface HeldBody {
  readonly chunks: Uint8Array[];
  readonly length: number;
  /** The rest of a body that is not held, or too large. */
  readonly rest: BodyReader | undefined;
}

async function read(reader: BodyReader | undefined, { holdBytes }: HandlerRun): Promise<HeldBody> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  if (holdBytes === 0) return { chunks, length, rest: reader };
  for (let next = await reader?.read(); next?.value !== undefined; next = await reader?.read()) {
    chunks.push(next.value);
    length += next.value.length;
    if (length > holdBytes) return { chunks, length, rest: reader };
  }
  return { chunks, length, rest: undefined };
}

function copyOf({ status, statusText, headers }: Response, bytes: Uint8Array): Response {
  const body = bytes.length === 0 ? null : (bytes as BodyInit);
  return new Response(body, { status, statusText, headers });
}

/** The chunks that were read, then the rest as it comes. */
function streamed(
  { status, statusText, headers }: Response,
  { chunks, rest }: HeldBody,
  run: HandlerRun,
): Response {
  let isCancelled = false;
  async function next(): Promise<Uint8Array | undefined> {
    try {
      // A body that is made as it is read is part of the handler.
      return chunks.shift() ?? (await enterRun(run, () => rest?.read()))?.value;
    } catch (error) {
      run.gone(true);
      throw error;
    }
  }
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const chunk = await next();
      // A body that is canceled ends as well.
      if (isCancelled) return;
      if (chunk !== undefined) return controller.enqueue(chunk);
      run.sent(status);
      controller.close();
    },
    async cancel(reason) {
      isCancelled = true;
      run.gone(true);
      await rest?.cancel(reason);
    },
  });
  return new Response(body, { status, statusText, headers });
}
