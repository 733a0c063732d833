/** For Node: puts an interceptor in front of a handler of `node:http`, `node:https` or `node:http2`. */
import { reportError } from "../call/call-event.ts";
import type { Interceptor } from "./interceptor.ts";
import { sendOnNode } from "./node-response.ts";
import type { NodeRequest, NodeResponse } from "./node-types.ts";
import { beginOnNode, servedNode } from "./on-node.ts";
import { problemResponse } from "./problem.ts";

/** Returns the handler for `createServer`. It rejects only with what `handler` throws. */
export function forNode<Request extends NodeRequest, Response extends NodeResponse>(
  interceptor: Interceptor<Request>,
  handler: (request: Request, response: Response) => unknown,
): (request: Request, response: Response) => Promise<void> {
  return async (request, response) => {
    const served = servedNode(request, request, response);
    const run = await beginOnNode(interceptor, served, response).catch((error: unknown) =>
      sendError(response, error),
    );
    if (run === undefined) return;
    try {
      await handler(request, response);
    } catch (error) {
      await run.fail(error);
    }
  };
}

/** Node has no place for the error of an interceptor, and a rejection would end the process. */
function sendError(response: NodeResponse, error: unknown): undefined {
  reportError(error);
  const title = "Something went wrong";
  const detail = "the log of the server has the error";
  sendOnNode(response, problemResponse({ status: 500, code: "INTERNAL", title, detail }));
}
