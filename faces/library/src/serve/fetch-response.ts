/** Fetch response: holds the `Response` of a handler until it is complete, or passes on a large one. */
import type { HandlerRun, PlainResponse } from "./interceptor.ts";
import { joined } from "./node-body.ts";

export function toResponse({ status, headers, body }: PlainResponse): Response {
  // A status such as 204 allows no body, not even an empty one.
  const init = { status, headers: headers as unknown as [string, string][] };
  return new Response(body.length === 0 ? null : (body as BodyInit), init);
}

/** The response to send instead of the handler's. */
export async function finishResponse(response: Response, run: HandlerRun): Promise<Response> {
  const { status, body } = response;
  if (run.holdBytes === 0 || status < 200) {
    run.sent(status);
    return response;
  }
  const held = await read(body?.getReader(), run);
  if (held.rest !== undefined) return streamed(response, held, run);
  const bytes = joined(held.chunks, held.length);
  const complete = { status, headers: [...response.headers], body: bytes };
  const answer = await run.respond(complete);
  return answer === complete ? copyOf(response, bytes) : toResponse(answer);
}

interface HeldBody {
  readonly chunks: Uint8Array[];
  readonly length: number;
  /** The rest of a body that is too large. */
  readonly rest: ReadableStreamDefaultReader<Uint8Array> | undefined;
}

/** A body that cannot be read counts as a handler that threw. */
async function read(
  reader: ReadableStreamDefaultReader<Uint8Array> | undefined,
  run: HandlerRun,
): Promise<HeldBody> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for (let next = await reader?.read(); next?.value !== undefined; next = await reader?.read()) {
      chunks.push(next.value);
      length += next.value.length;
      if (length > run.holdBytes) return { chunks, length, rest: reader };
    }
  } catch (error) {
    await run.failed(error);
    throw error;
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
  let isOver = false;
  const finish = () => {
    if (!isOver) run.sent(status);
    isOver = true;
  };
  async function next(): Promise<Uint8Array | undefined> {
    try {
      return chunks.shift() ?? (await rest?.read())?.value;
    } catch (error) {
      finish();
      throw error;
    }
  }
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const chunk = await next();
      if (chunk !== undefined) return controller.enqueue(chunk);
      finish();
      controller.close();
    },
    async cancel(reason) {
      finish();
      await rest?.cancel(reason);
    },
  });
  return new Response(body, { status, statusText, headers });
}
