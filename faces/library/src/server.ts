/**
 * `redrive/server`: overload protection for a server. It limits the requests in progress, refuses the
 * rest with an honest Retry-After, and prefers first attempts to retries. And the deadline and the layer
 * of trusted callers, for the calls that a handler makes.
 */
export type { Trust } from "./http/hop-headers.ts";
export { type IncomingLayerOptions, incomingLayer } from "./http/incoming.ts";
export {
  type LimiterStats,
  type OverloadEvent,
  type OverloadLimiter,
  type OverloadLimiterOptions,
  overloadLimiter,
  type ShedReason,
} from "./http/overload-limiter.ts";
export { type ExpressMiddleware, type ExpressRequest, forExpress } from "./serve/for-express.ts";
export {
  type FastifyHook,
  type FastifyReplyLike,
  type FastifyRequestLike,
  forFastify,
} from "./serve/for-fastify.ts";
export { forFetch } from "./serve/for-fetch.ts";
export { forHono, type HonoContextLike } from "./serve/for-hono.ts";
export { forNode } from "./serve/for-node.ts";
export type {
  HandlerRun,
  Interceptor,
  PlainResponse,
  ServedBody,
  ServedRequest,
} from "./serve/interceptor.ts";
export type { NodeHeaderValue, NodeRequest, NodeResponse } from "./serve/node-http.ts";
export { NotExecuted, type NotExecutedOptions } from "./serve/problem.ts";
