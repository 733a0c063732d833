/**
 * Front: what the routes share: the service they front, the clock, and the parts that outlive a
 * request.
 */
import type { Clock } from "@redrive/core";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Redrive } from "../../redrive.ts";
import type { Caller, RouteScope } from "../access/access.ts";
import type { Visibility } from "../response/views.ts";
import type { Backlog } from "./backlog.ts";
import type { Metrics } from "./metrics.ts";
import type { TaskWatch } from "./task-watch.ts";
import type { TimeLimit } from "./time-limit.ts";

export interface HttpContext {
  readonly redrive: Redrive;
  readonly clock: Clock;
  readonly limit: TimeLimit;
  readonly watch: TaskWatch;
  readonly backlog: Backlog;
  readonly metrics: Metrics;
}

/** Adds some routes to the app. */
export type AddRoutes = (app: FastifyInstance, context: HttpContext) => void;

declare module "fastify" {
  interface FastifyRequest {
    /** Who asks; set before any route is. */
    caller: Caller | null;
  }
  interface FastifyContextConfig {
    /** Default: `admin`, so that a route that says nothing is open to nobody. */
    scope?: RouteScope;
    /**
     * `own`: the route touches no store, or limits each step itself, because it waits on purpose or
     * has much to do. Default: its whole answer is limited.
     */
    limit?: "own";
  }
  interface FastifyInstance {
    /** Strangers are refused. */
    requiresKey: boolean;
    /** Strangers were let in on purpose, from anywhere. */
    isOpenToAll: boolean;
  }
}

export function tenantOf(request: FastifyRequest): string {
  return callerOf(request).tenantId;
}

export function callerOf({ caller }: FastifyRequest): Caller {
  if (caller === null) throw new Error("a route was asked before its caller was checked");
  return caller;
}

/** What the caller may see, given what it asked for. */
export function visibilityFor(request: FastifyRequest, withBody: boolean): Visibility {
  const { scopes } = callerOf(request);
  return { withBody, mayReadPayload: scopes.has("payload:read") || scopes.has("admin") };
}
