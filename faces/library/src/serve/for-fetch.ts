/**
 * For fetch: puts an interceptor in front of a handler that takes a `Request` and returns a `Response`,
 * as in Deno, Bun and workers, and the route handlers of Next.js.
 */

import { enterRun, type Interceptor, isRun } from "./interceptor.ts";
import { answerToError } from "./problem.ts";
import { answerRequest, finishResponse, servedFetch } from "./served-fetch.ts";

/** Further arguments, such as the context of Next.js, are passed on. */
export function forFetch<More extends unknown[]>(
  interceptor: Interceptor<Request>,
  handler: (request: Request, ...more: More) => Response | Promise<Response>,
): (request: Request, ...more: More) => Promise<Response> {
  return async (request, ...more) => {
    const run = await interceptor.begin(servedFetch(request, request));
    if (!isRun(run)) return answerRequest(request, run);
    try {
      const response = await enterRun(run, () => handler(request, ...more));
      return await finishResponse({ request, response }, run);
    } catch (error) {
      const answer = answerToError(error);
      const own = await run.failed(error, answer);
      if (own !== undefined) return answerRequest(request, own);
      if (answer.notExecuted) return answerRequest(request, answer);
      throw error;
    }
  };
}
