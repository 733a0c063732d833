/** For Hono: an interceptor as a middleware. */

import {
  enterRun,
  type Interceptor,
  isRun,
  type ServedBody,
  type ServedRequest,
} from "./interceptor.ts";
import { answerToError, NotExecuted } from "./problem.ts";
import { answerRequest, finishResponse, servedFetch } from "./served-fetch.ts";

/** The parts of a context of Hono that are used. */
export interface HonoContextLike {
  readonly req: { readonly raw: Request; arrayBuffer(): Promise<ArrayBuffer> };
  res: Response | undefined;
  /** What the handler threw, if Hono has turned it into a response. */
  readonly error?: unknown;
}

export function forHono<Context extends HonoContextLike>(
  interceptor: Interceptor<Context>,
): (context: Context, next: () => Promise<void>) => Promise<Response | undefined> {
  return async (context, next) => {
    const request = context.req.raw;
    const served = servedFetch(context, request);
    const body = (maxBytes: number) => honoBody(context, served, maxBytes);
    const run = await interceptor.begin({ ...served, body });
    if (!isRun(run)) return answerRequest(request, run);
    let response: Response;
    try {
      await enterRun(run, next);
      const notExecuted = context.error instanceof NotExecuted;
      const given = { request, response: context.res as Response, notExecuted };
      response = await finishResponse(given, run);
    } catch (error) {
      // Hono turns most errors of handlers into responses; these are the others.
      const answer = await run.failed(error, answerToError(error));
      if (answer === undefined) throw error;
      return answerRequest(request, answer);
    }
    // Hono adds the headers of the old response to a new one unless the old one is removed.
    context.res = undefined;
    context.res = response;
    return undefined;
  };
}

/** Hono keeps a body that a middleware has read, and returns it in every form. */
async function honoBody(
  { req }: HonoContextLike,
  served: ServedRequest,
  maxBytes: number,
): Promise<ServedBody> {
  if (!req.raw.bodyUsed) return await served.body(maxBytes);
  return { kind: "bytes", bytes: new Uint8Array(await req.arrayBuffer()) };
}
