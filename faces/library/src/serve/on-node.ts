/**
 * On Node: what the adapters of frameworks on `node:http` share: they ask the interceptor, send its
 * answer or hold the response of the handler.
 */
import { holdResponse } from "./held-response.ts";
import { type HandlerRun, type Interceptor, isRun, type ServedRequest } from "./interceptor.ts";
import { nodeBody } from "./node-body.ts";
import { isClosed, sendOnNode } from "./node-response.ts";
import type { NodeRequest, NodeResponse } from "./node-types.ts";

/** A handler that may run. */
export interface NodeRun {
  /** For a handler that threw. Throws the error again unless the interceptor has an answer. */
  fail(error: unknown): Promise<void>;
}

/**
 * Undefined if the interceptor has answered the request. `beforeAnswer` tells the framework that it must
 * not answer any more.
 */
export async function beginOnNode<Native>(
  interceptor: Interceptor<Native>,
  request: ServedRequest<Native>,
  response: NodeResponse,
  beforeAnswer?: () => void,
): Promise<NodeRun | undefined> {
  const begun = await interceptor.begin(request);
  if (!isRun(begun)) {
    beforeAnswer?.();
    sendOnNode(response, begun);
    return undefined;
  }
  return begun.holdBytes > 0 ? holdResponse(response, begun) : sendResponse(response, begun);
}

/**
 * A response that is sent as it is written ends when its connection closes or takes the next one. After a
 * handler that threw, `sent` follows `failed`; the run ignores it.
 */
function sendResponse(response: NodeResponse, run: HandlerRun): NodeRun {
  onClose(response, () => run.sent(response.statusCode));
  return {
    async fail(error) {
      await run.failed(error);
      throw error;
    },
  };
}

/** Also calls the listener if the connection has closed before, because the event does not come again. */
function onClose(response: NodeResponse, listener: () => void): void {
  if (isClosed(response)) listener();
  else response.once("close", listener);
}

/** `native` is the request of the framework, `request` and `response` are those of Node. */
export function servedNode<Native>(
  native: Native,
  request: NodeRequest,
  response: NodeResponse,
  more: { readonly target?: string | undefined; body?: ServedRequest["body"] } = {},
): ServedRequest<Native> {
  const { target = request.url ?? "/", body = (maxBytes) => nodeBody(request, maxBytes) } = more;
  return {
    method: request.method ?? "GET",
    target,
    header(name) {
      const value = request.headers[name.toLowerCase()];
      return typeof value === "object" ? value.join(", ") : value;
    },
    body,
    onGone: (listener) => onClose(response, listener),
    native,
  };
}
