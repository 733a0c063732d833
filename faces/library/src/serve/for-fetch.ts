/**
 * For fetch: puts an interceptor in front of a handler that takes a `Request` and returns a `Response`,
 * as in Deno, Bun and workers, and the route handlers of Next.js.
 */
import { finishResponse, toResponse } from "./fetch-response.ts";
import { type Interceptor, isRun } from "./interceptor.ts";
import { servedFetch } from "./served-fetch.ts";

/** Further arguments, such as the context of Next.js, are passed on. */
export function forFetch<More extends unknown[]>(
  interceptor: Interceptor<Request>,
  handler: (request: Request, ...more: More) => Response | Promise<Response>,
): (request: Request, ...more: More) => Promise<Response> {
  return async (request, ...more) => {
    const begun = await interceptor.begin(servedFetch(request, request));
    if (!isRun(begun)) return toResponse(begun);
    let response: Response;
    try {
      response = await handler(request, ...more);
    } catch (error) {
      const answer = await begun.failed(error);
      if (answer === undefined) throw error;
      return toResponse(answer);
    }
    return await finishResponse(response, begun);
  };
}
