/** For Node: puts an interceptor in front of a handler of `node:http`, `node:https` or `node:http2`. */
import { reportError } from "../call/call-event.ts";
import { enterRun, type Interceptor } from "./interceptor.ts";
import type { NodeRequest, NodeResponse } from "./node-http.ts";
import { answerOnNode, beginOnNode, servedNode } from "./on-node.ts";
import { answerToError } from "./problem.ts";

/**
 * Returns the handler for `createServer`. It rejects only with what `handler` throws, and not even with
 * that if the response is held, as for a request with an idempotency key: the client then gets a 500.
 */
export function forNode<Request extends NodeRequest, Response extends NodeResponse>(
  interceptor: Interceptor<Request>,
  handler: (request: Request, response: Response) => unknown,
): (request: Request, response: Response) => Promise<void> {
  return async (request, response) => {
    const served = servedNode(request, request, response);
    const begun = await beginOnNode(interceptor, served, response).catch((error: unknown) =>
      sendError(response, error),
    );
    if (begun === undefined) return;
    try {
      const returned = enterRun(begun.run, () => handler(request, response));
      await returned;
      // A function that returns nothing may go on, in callbacks.
      if (returned instanceof Promise) begun.finish();
    } catch (error) {
      await begun.fail(error);
    }
  };
}

/** Node has no place for the error of an interceptor, and a rejection would end the process. */
function sendError(response: NodeResponse, error: unknown): undefined {
  reportError(error);
  answerOnNode(response, answerToError(error));
}
