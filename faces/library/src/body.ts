/**
 * Body: a request's body made ready to be sent more than once, byte for byte. What cannot be sent
 * twice is known here, so that it is never sent empty.
 */
import { retry } from "./retry.ts";

/** What `createFetch` takes as a body: fetch's own kinds, and a function that makes a fresh one. */
export type Body = BodyInit | (() => Awaitable<BodyInit | null>);

type Awaitable<T> = T | PromiseLike<T>;

export interface ReplayBody {
  /** A body for the next attempt. */
  next(): Awaitable<BodyInit | null>;
  /** False if there is nothing to send a second time. */
  readonly canRepeat: boolean;
  /** What the body brings along, as a form its boundary; undefined where fetch sees to it. */
  readonly contentType: string | undefined;
}

const NO_BODY: ReplayBody = again(() => null);

export async function replayBody(body: Body | null | undefined): Promise<ReplayBody> {
  if (body === null || body === undefined) return NO_BODY;
  if (typeof body === "function") return again(body);
  if (isStream(body)) return { ...again(() => body), canRepeat: false };
  // A form gets a new boundary each time it is written out, so it is written out once.
  if (body instanceof FormData) return writtenOut(new Response(body));
  return again(constant(body));
}

/** A stream of the web, or one of Node's, which its fetch takes too: both are empty once read. */
export function isStream(body: BodyInit): body is ReadableStream {
  return (
    body instanceof ReadableStream || (typeof body === "object" && Symbol.asyncIterator in body)
  );
}

/** An abort ends it; nothing else should, as far as anything may take. */
const READING = { maxAttempts: 1, attemptTimeoutMs: 600_000, totalBudgetMs: 600_000 };

/** The body of a `Request` is read into memory once: it has no other way to be sent again. */
export async function requestBody(request: Request, signal?: AbortSignal): Promise<ReplayBody> {
  // Where a request does not show its body, the method says whether it can have one.
  const isBodiless = request.method === "GET" || request.method === "HEAD";
  if (request.body === null || isBodiless) return NO_BODY;
  return again(always(await retry(() => request.arrayBuffer(), { ...READING, signal })));
}

function again(next: ReplayBody["next"]): ReplayBody {
  return { next, canRepeat: true, contentType: undefined };
}

async function writtenOut(response: Response): Promise<ReplayBody> {
  const contentType = response.headers.get("content-type") ?? undefined;
  return { ...again(always(await response.arrayBuffer())), contentType };
}

/** Bytes are copied: the caller may reuse its buffer while a retry waits. */
function constant(body: Exclude<BodyInit, ReadableStream | FormData>): () => BodyInit {
  if (body instanceof ArrayBuffer) return always(body.slice(0));
  if (ArrayBuffer.isView(body)) {
    const { buffer, byteOffset, byteLength } = body;
    return always(new Uint8Array(buffer, byteOffset, byteLength).slice());
  }
  return always(body instanceof URLSearchParams ? new URLSearchParams(body) : body);
}

function always(body: BodyInit): () => BodyInit {
  return () => body;
}
