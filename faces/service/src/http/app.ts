/**
 * App: the HTTP front as a Fastify instance that does not listen yet. Routes and what they share are
 * joined here; whether a request may come in is `access.ts`, how a refusal looks is `answer.ts`.
 */
import type { Server } from "node:http";
import swagger from "@fastify/swagger";
import { type Cancel, type Clock, systemClock } from "@redrive/core";
import { Ajv } from "ajv";
import {
  type FastifyHttpOptions,
  type FastifyInstance,
  type FastifyRequest,
  type FastifyServerOptions,
  fastify,
  LogController,
} from "fastify";
import { serviceError } from "../model/errors.ts";
import { DEFAULT_TENANT } from "../model/task.ts";
import type { Redrive } from "../redrive.ts";
import { Access, type Caller, type RouteScope } from "./access/access.ts";
import { type KeyStore, SCOPES } from "./access/keys.ts";
import { Backlog } from "./context/backlog.ts";
import type { AddRoutes, HttpContext } from "./context/http-context.ts";
import { Metrics } from "./context/metrics.ts";
import { TaskWatch } from "./context/task-watch.ts";
import { limitRoute, TimeLimit } from "./context/time-limit.ts";
import { parseJson } from "./request/json-body.ts";
import { sendError, sendSocketError } from "./response/error-response.ts";
import { RouteMethods } from "./response/route-methods.ts";
import { addCreateRoutes } from "./routes/create-routes.ts";
import { addDeadLetterRoutes } from "./routes/dead-letter-routes.ts";
import { addDestinationRoutes } from "./routes/destination-routes.ts";
import { addPolicyRoutes } from "./routes/policy-routes.ts";
import { addRedriveRoutes } from "./routes/redrive-routes.ts";
import { addServiceRoutes } from "./routes/service-routes.ts";
import { addTaskRoutes } from "./routes/task-routes.ts";
import { addWebPageRoutes } from "./routes/web-page-routes.ts";

export interface AppOptions {
  /** Who may call. Default: anybody, and then only a loopback address may be listened on. */
  readonly keys?: KeyStore;
  /** Names that `Host` may give besides localhost, 127.0.0.1 and [::1]. Default: none. */
  readonly hosts?: readonly string[];
  /** Requests a second that one key may send, 1 to 1 000 000. Default: 5000. */
  readonly requestsPerSecond?: number;
  /** Requests that one key may have under way at once, at least 1. Default: 1000. */
  readonly requestsAtOnce?: number;
  /** Anybody may call, from anywhere: told by `/healthz`. Default: false. */
  readonly insecureNoAuth?: boolean;
  /** Tasks of a tenant that may wait, at least 1. Default: 10 000 000. */
  readonly maxWaiting?: number;
  /** Open connections, at least 1. Default: 10 000. */
  readonly maxConnections?: number;
  /** All of a request's headers must be there within this. Default: 10 s. */
  readonly headersTimeoutMs?: number;
  /** All of a request must be there within this. Default: 30 s. */
  readonly requestTimeoutMs?: number;
  /** A folder of built web pages to serve under `/ui/`. Default: none, and `/ui/` is no path. */
  readonly pagesFolder?: string;
  /** Where to log, in Fastify's terms. Default: nowhere. */
  readonly logger?: FastifyServerOptions["logger"];
  /** Default: the machine's. */
  readonly clock?: Clock;
}

const MAX_BODY_BYTES = 1024 * 1024;
const KEEP_ALIVE_MS = 5000;
const MAX_HEADERS = 100;
/** Requests that are still coming in when the front closes have this long. */
const CLOSING_MS = 2000;
/** Percent-encoded names of destinations are up to three times 255. */
const MAX_PARAMETER = 800;

const ROUTES: readonly AddRoutes[] = [
  addCreateRoutes,
  addTaskRoutes,
  addPolicyRoutes,
  addDeadLetterRoutes,
  addRedriveRoutes,
  addDestinationRoutes,
  addServiceRoutes,
];

const OPEN_CALLER: Caller = {
  tenantId: DEFAULT_TENANT,
  scopes: new Set(SCOPES),
  limits: {},
};

/** The front of a service. Closing it ends what it started, not the service. */
export function createApp(redrive: Redrive, options: AppOptions = {}): FastifyInstance {
  const { clock = systemClock } = options;
  const app = fastify(serverOptions(options));
  const context = createContext(redrive, clock, options);
  const paths = new RouteMethods();
  app.server.maxConnections = options.maxConnections ?? 10_000;
  app.server.maxHeadersCount = MAX_HEADERS;
  app.addHook("onRoute", (route) => {
    paths.add(route.url, route.method);
    limitRoute(context.limit, route);
  });
  addParsing(app);
  addAccess(app, clock, options);
  addErrorHandlers(app, paths);
  addRoutes(app, context);
  if (options.pagesFolder !== undefined) addWebPageRoutes(app, options.pagesFolder);
  addClosing(app, context);
  return app;
}

/** Who waits is answered, who still sends is given a moment, and nobody can keep it from closing. */
function addClosing(app: FastifyInstance, context: HttpContext): void {
  let cancel: Cancel = () => {};
  app.addHook("preClose", async () => {
    context.watch.stop();
    cancel = context.clock.alarm(CLOSING_MS, () => app.server.closeAllConnections());
  });
  app.addHook("onClose", async () => {
    cancel();
    context.metrics.stop();
  });
}

function serverOptions(options: AppOptions): FastifyHttpOptions<Server> {
  const { headersTimeoutMs = 10_000, requestTimeoutMs = 30_000, logger = false } = options;
  return {
    logger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    routerOptions: { maxParamLength: MAX_PARAMETER },
    http: {
      headersTimeout: headersTimeoutMs,
      connectionsCheckingInterval: Math.min(1000, headersTimeoutMs),
      insecureHTTPParser: false,
    },
    clientErrorHandler: sendSocketError,
    frameworkErrors: (error, request, reply) => sendError(error, request, reply),
  };
}

function createContext(
  redrive: Redrive,
  clock: Clock,
  { keys, maxWaiting }: AppOptions,
): HttpContext {
  const tenants = () =>
    new Set([DEFAULT_TENANT, ...(keys?.list() ?? []).map((key) => key.tenantId)]);
  const ofAll = async <T>(ask: (tenantId: string) => Promise<readonly T[]>) =>
    (await Promise.all([...tenants()].map(ask))).flat();
  const limit = new TimeLimit(clock);
  return {
    redrive,
    clock,
    limit,
    watch: new TaskWatch(clock, {
      get: (taskId, tenantId) => limit.guard(redrive.get(taskId, tenantId)),
      onEvent: (listener) => redrive.onEvent(listener),
    }),
    backlog: new Backlog(clock, (tenantId) => redrive.count(tenantId), maxWaiting ?? 10_000_000),
    metrics: new Metrics({
      onEvent: (listener) => redrive.onEvent(listener),
      onCommit: (listener) => redrive.onCommit(listener),
      counts: () => ofAll((tenantId) => redrive.count(tenantId)),
      destinations: () => ofAll((tenantId) => redrive.destinations(tenantId)),
    }),
  };
}

/** Only JSON comes in, and only Ajv that changes nothing judges it. */
function addParsing(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (_request, body, done) => {
    try {
      done(null, body.length === 0 ? undefined : parseJson(body as Buffer));
    } catch (error) {
      done(error as Error, undefined);
    }
  });
  const rules = { removeAdditional: false, allErrors: false, strict: false } as const;
  const strict = new Ajv({ ...rules, coerceTypes: false });
  // Everything in a query is a text: there, and only there, "50" is a number.
  const ofTexts = new Ajv({ ...rules, coerceTypes: true });
  app.setValidatorCompiler(({ schema, httpPart, method, url }) => {
    if (httpPart === "body" && isValidatedElsewhere(method, url)) return () => true;
    return (httpPart === "querystring" ? ofTexts : strict).compile(schema as object);
  });
}

/** Tasks, policies and destinations: their schema is documentation, and one validator runs. */
function isValidatedElsewhere(method: string, url: string): boolean {
  return !(method === "POST" && url === "/redrives");
}

function addAccess(app: FastifyInstance, clock: Clock, options: AppOptions): void {
  const { keys, hosts = [], requestsPerSecond = 5000, requestsAtOnce = 1000 } = options;
  const access = new Access(clock, {
    keys,
    hosts,
    requestsPerSecond,
    requestsAtOnce,
    openCaller: OPEN_CALLER,
  });
  app.decorate("requiresKey", keys !== undefined);
  app.decorate("isOpenToAll", options.insecureNoAuth === true && keys === undefined);
  app.decorateRequest("caller", null);
  app.addHook("onRequest", (request, reply, done) => {
    reply.header("x-content-type-options", "nosniff");
    try {
      request.caller = access.check(request, reply, scopeOf(request));
      done();
    } catch (error) {
      done(error as Error);
    }
  });
}

/** A path that does not exist is told to nobody who has no key. */
function scopeOf({ is404, routeOptions }: FastifyRequest): RouteScope {
  return is404 ? "tasks:read" : (routeOptions.config.scope ?? "admin");
}

function addErrorHandlers(app: FastifyInstance, paths: RouteMethods): void {
  app.setErrorHandler(sendError);
  app.setNotFoundHandler((request, reply) => {
    const methods = paths.methodsOf(request.url);
    if (methods.length === 0) {
      return sendError(
        serviceError("NOT_FOUND", "there is no such path; see /docs"),
        request,
        reply,
      );
    }
    reply.header("allow", methods.join(", "));
    const text = `this path has ${methods.join(", ")}, not ${request.method}`;
    return sendError(serviceError("METHOD_NOT_ALLOWED", text), request, reply);
  });
}

function addRoutes(app: FastifyInstance, context: HttpContext): void {
  app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "Redrive",
        version: "0.1.0",
        description:
          "Hand over an HTTP call; it is stored, attempted, retried, and ends in success or as a dead letter. Instants (...At) are epoch milliseconds, spans (...Ms) milliseconds. Errors are application/problem+json with a stable code. An idempotency key is kept while its task lives and for 24 hours after its end.",
      },
      components: { securitySchemes: { key: { type: "http", scheme: "bearer" } } },
      security: [{ key: [] }],
    },
  });
  // In a plugin, because routes are described only if they come after the describing one.
  app.register((scope, _options, done) => {
    for (const add of ROUTES) add(scope, context);
    done();
  });
}
