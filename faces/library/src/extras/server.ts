/**
 * `redrive/server`: overload protection for a server. It limits the requests in progress, refuses the
 * rest with an honest Retry-After, and prefers first attempts to retries.
 */
export type {
  LimiterStats,
  OverloadEvent,
  OverloadLimiterOptions,
  ShedReason,
} from "../overload/limiter-options.ts";
export { type OverloadLimiter, overloadLimiter } from "../overload/overload-limiter.ts";
export { type ExpressMiddleware, type ExpressRequest, forExpress } from "../serve/for-express.ts";
export {
  type FastifyReplyLike,
  type FastifyRequestLike,
  forFastify,
} from "../serve/for-fastify.ts";
export { forFetch } from "../serve/for-fetch.ts";
export { forHono, type HonoContextLike } from "../serve/for-hono.ts";
export { forNode } from "../serve/for-node.ts";
export type {
  HandlerRun,
  Interceptor,
  PlainResponse,
  ServedBody,
  ServedRequest,
} from "../serve/interceptor.ts";
export type { NodeHeaderValue, NodeRequest, NodeResponse } from "../serve/node-types.ts";
