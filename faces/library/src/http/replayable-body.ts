/**
 * Replayable body: a request body that can be sent more than once, byte for byte. A body that cannot
 * be sent twice is marked, so that a retry never sends it empty.
 */
import type { Body } from "../call/options.ts";
import { retry } from "../call/retry.ts";

export interface ReplayableBody {
  /** The body for the next attempt. */
  next(): BodyInit | null | PromiseLike<BodyInit | null>;
  /** False if the body can be sent only once. */
  readonly canRepeat: boolean;
  /** The content type that the body requires, such as a form's; undefined if fetch sets it. */
  readonly contentType: string | undefined;
}

const NO_BODY: ReplayableBody = repeatable(() => null);

export async function replayableBody(body: Body | null | undefined): Promise<ReplayableBody> {
  if (body === null || body === undefined) return NO_BODY;
  if (typeof body === "function") return repeatable(body);
  if (isStream(body)) return { ...repeatable(() => body), canRepeat: false };
  // A form gets a new boundary each time it is serialized, so it is serialized once.
  if (body instanceof FormData) return serialized(new Response(body));
  return repeatable(copyOf(body));
}

/** A web stream or a Node stream, which Node's fetch accepts too. Both are empty once read. */
export function isStream(body: BodyInit): body is ReadableStream {
  return (
    body instanceof ReadableStream || (typeof body === "object" && Symbol.asyncIterator in body)
  );
}

/** Only an abort ends the reading; the other limits are the maximum. */
const READ_POLICY = { maxAttempts: 1, attemptTimeoutMs: 600_000, totalBudgetMs: 600_000 };

/** Reads the body of a `Request` into memory, because a request cannot send its body twice. */
export async function requestBody(request: Request, signal?: AbortSignal): Promise<ReplayableBody> {
  // Some runtimes do not expose the body. There the method tells whether a body is possible.
  const isBodiless = request.method === "GET" || request.method === "HEAD";
  if (request.body === null || isBodiless) return NO_BODY;
  return repeatable(always(await retry(() => request.arrayBuffer(), { ...READ_POLICY, signal })));
}

function repeatable(next: ReplayableBody["next"]): ReplayableBody {
  return { next, canRepeat: true, contentType: undefined };
}

async function serialized(response: Response): Promise<ReplayableBody> {
  const contentType = response.headers.get("content-type") ?? undefined;
  return { ...repeatable(always(await response.arrayBuffer())), contentType };
}

/** Copies bytes: the caller may reuse its buffer while a retry waits. */
function copyOf(body: Exclude<BodyInit, ReadableStream | FormData>): () => BodyInit {
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
