/** For Express: an interceptor as a middleware of Express 4 and 5, and of anything with their signature. */
import { enterRun, type Interceptor } from "./interceptor.ts";
import type { NodeRequest, NodeResponse } from "./node-http.ts";
import { beginOnNode, servedNode } from "./on-node.ts";

export type ExpressMiddleware<Request> = (
  request: Request,
  response: NodeResponse,
  next: (error?: unknown) => void,
) => void;

/** A request of Express: routers shorten `url`, and `originalUrl` stays as it was sent. */
export interface ExpressRequest extends NodeRequest {
  readonly originalUrl?: string | undefined;
}

/** Put it before or after the parsers of bodies; both work. Errors go to `next`. */
export function forExpress<Request extends ExpressRequest>(
  interceptor: Interceptor<Request>,
): ExpressMiddleware<Request> {
  return (request, response, next) => {
    const served = servedNode(request, request, response, { target: request.originalUrl });
    void beginOnNode(interceptor, served, response).then(
      (begun) => begun !== undefined && enterRun(begun.run, next),
      next,
    );
  };
}
