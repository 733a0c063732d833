/**
 * HTTP context: what all routes share: the service, the clock, and the objects that outlive a
 * request.
 */
import type { Clock } from "@redrive/core";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Simulations } from "../../operations/simulation/simulations.ts";
import type { Redrive } from "../../redrive.ts";
import type { Access, Caller, RouteScope } from "../access/access.ts";
import type { KeyStore } from "../access/keys.ts";
import type { Visibility } from "../response/views.ts";
import type { Backlog } from "./backlog.ts";
import type { EventStreams } from "./event-streams.ts";
import type { Metrics } from "./metrics.ts";
import type { TaskWatch } from "./task-watch.ts";
import type { TimeLimit } from "./time-limit.ts";

export interface HttpContext {
  readonly redrive: Redrive;
  readonly clock: Clock;
  readonly access: Access;
  /** Undefined: no key is required. */
  readonly keys: KeyStore | undefined;
  readonly limit: TimeLimit;
  readonly watch: TaskWatch;
  readonly backlog: Backlog;
  readonly metrics: Metrics;
  readonly streams: EventStreams;
  /** Idempotency keys whose request is still arriving, with their tenant. */
  readonly arriving: Set<string>;
  /** Undefined: the app has passed no simulator in. */
  readonly simulations: Simulations | undefined;
}

/** Adds a group of routes to the app. */
export type AddRoutes = (app: FastifyInstance, context: HttpContext) => void;

declare module "fastify" {
  interface FastifyRequest {
    /** The caller; set before any route runs. */
    caller: Caller | null;
  }
  interface FastifyContextConfig {
    /** Default: `admin`, so that a route without a scope is closed. */
    scope?: RouteScope;
    /**
     * `own`: the route uses no store, or limits each step itself because it waits or does many
     * steps. Default: the time limit applies to the whole response.
     */
    limit?: "own";
    /** The body is a stream of any content type and may take long to arrive. */
    upload?: boolean;
  }
  interface FastifyInstance {
    /** True if requests without a key are rejected. */
    requiresKey: boolean;
    /** True if the operator has disabled keys for every address. */
    isOpenToAll: boolean;
  }
}

export function tenantOf(request: FastifyRequest): string {
  return callerOf(request).tenantId;
}

export function callerOf({ caller }: FastifyRequest): Caller {
  if (caller === null) throw new Error("a route ran before its caller was checked");
  return caller;
}

/** What the caller may see of a task. */
export function visibilityFor(request: FastifyRequest, withBody: boolean): Visibility {
  const { scopes } = callerOf(request);
  return { withBody, mayReadPayload: scopes.has("payload:read") || scopes.has("admin") };
}
