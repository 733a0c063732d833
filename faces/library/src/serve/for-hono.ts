/** For Hono: an interceptor as a middleware. */
import { finishResponse, toResponse } from "./fetch-response.ts";
import { type Interceptor, isRun, type ServedBody, type ServedRequest } from "./interceptor.ts";
import { servedFetch } from "./served-fetch.ts";

/** The parts of a context of Hono that are used. */
export interface HonoContextLike {
  readonly req: { readonly raw: Request; arrayBuffer(): Promise<ArrayBuffer> };
  res: Response | undefined;
}

export function forHono<Context extends HonoContextLike>(
  interceptor: Interceptor<Context>,
): (context: Context, next: () => Promise<void>) => Promise<Response | undefined> {
  return async (context, next) => {
    const served = servedFetch(context, context.req.raw);
    const body = (maxBytes: number) => honoBody(context, served, maxBytes);
    const begun = await interceptor.begin({ ...served, body });
    if (!isRun(begun)) return toResponse(begun);
    try {
      await next();
    } catch (error) {
      // Hono turns most errors of handlers into responses; these are the others.
      const answer = await begun.failed(error);
      if (answer === undefined) throw error;
      return toResponse(answer);
    }
    const response = await finishResponse(context.res as Response, begun);
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
