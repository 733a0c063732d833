/**
 * Server: the HTTP API as a Fastify instance that does not listen yet. It connects the routes with
 * the objects that they share. `access.ts` admits requests; `problem.ts` sends errors.
 */
import type { Server } from "node:http";
import swagger from "@fastify/swagger";
import { type Cancel, type Clock, systemBytes, systemClock } from "@redrive/core";
import { Ajv } from "ajv";
import {
  type FastifyHttpOptions,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
  fastify,
  LogController,
} from "fastify";
import { serviceError } from "../model/errors.ts";
import { DEFAULT_TENANT } from "../model/task.ts";
import { Simulations, type Simulator } from "../operations/simulations.ts";
import type { Redrive } from "../redrive.ts";
import {
  Access,
  type Caller,
  type KeyStore,
  type RouteScope,
  SCOPES,
  SESSION_COOKIE,
  Sessions,
} from "./access.ts";
import { ArrivalLimit, createLimitedServer, type RequestHandler } from "./connection-limits.ts";
import { addBodyRoutes, addCreateRoutes } from "./create-routes.ts";
import { addActivityRoutes, addDestinationRoutes } from "./destination-routes.ts";
import { addEventRoutes } from "./event-routes.ts";
import { EventStreams } from "./event-streams.ts";
import {
  type AddRoutes,
  Backlog,
  type HttpContext,
  limitRoute,
  TaskWatch,
  TimeLimit,
} from "./http-context.ts";
import { parseJson } from "./json-body.ts";
import { Metrics } from "./metrics.ts";
import { addWebPageRoutes } from "./page-routes.ts";
import { addPolicyRoutes } from "./policy-routes.ts";
import { problemCatalog, RepeatedLines, sendError, sendSocketError } from "./problem.ts";
import { addDeadLetterRoutes, addRedriveRoutes } from "./redrive-routes.ts";
import { addSelectionRoutes } from "./selection-routes.ts";
import { addServiceRoutes } from "./service-routes.ts";
import { addAlertRoutes, addKeyRoutes, addSessionRoutes } from "./setting-routes.ts";
import { addSimulationRoutes } from "./simulation-routes.ts";
import { addTaskRoutes } from "./task-routes.ts";

export interface AppOptions {
  /** The accepted keys. Default: none is required, and the server may listen on loopback only. */
  readonly keys?: KeyStore;
  /**
   * Signs the sessions of browsers; at least 32 bytes. Nodes with the same secret accept each other's
   * sessions. Default: random, so that sessions end with the process.
   */
  readonly sessionSecret?: Uint8Array;
  /** Names that `Host` may have besides localhost, 127.0.0.1 and [::1]. Default: none. */
  readonly hosts?: readonly string[];
  /** Requests per second of one key, 1 to 1 000 000. Default: 5000. */
  readonly requestsPerSecond?: number;
  /** Concurrent requests of one key, at least 1. Default: 1000. */
  readonly requestsAtOnce?: number;
  /** Requires no key on any address; `/healthz` then returns a warning. Default: false. */
  readonly insecureNoAuth?: boolean;
  /** Waiting tasks of one tenant, at least 1. Default: 10 000 000. */
  readonly maxWaiting?: number;
  /** Open connections, at least 1. Default: 10 000. */
  readonly maxConnections?: number;
  /**
   * Open connections of one remote address (of one /64 for IPv6), at least 1. Connections from this
   * machine are not limited. Default: 1000.
   */
  readonly maxConnectionsPerAddress?: number;
  /** A client that reads nothing of an unsent response for this time is disconnected. Default: 20 s. */
  readonly sendTimeoutMs?: number;
  /** All headers of a request must arrive within this time. Default: 10 s. */
  readonly headersTimeoutMs?: number;
  /**
   * The whole request must arrive within this time; an upload must make progress within it. Default:
   * 30 s.
   */
  readonly requestTimeoutMs?: number;
  /**
   * A folder of built web pages to serve under `/ui/`. Default: none; `/ui/` does not exist then.
   */
  readonly pagesFolder?: string;
  /** Runs the scenarios of `POST /simulations`. Default: none, and the route says so. */
  readonly simulator?: Simulator;
  /** Fastify's logger option. Default: no logging. */
  readonly logger?: FastifyServerOptions["logger"];
  /** Default: the system clock. */
  readonly clock?: Clock;
}

const MAX_BODY_BYTES = 1024 * 1024;
const KEEP_ALIVE_MS = 5000;
/** The longest time of an upload. The collector of unused bodies expects less than its minimum age. */
const MAX_UPLOAD_MS = 3_600_000;
const MAX_HEADERS = 100;
const SESSION_SECRET_BYTES = 32;
/** When the server closes, requests that are still arriving get this much time. */
const CLOSING_MS = 2000;
/** The percent-encoded name of a destination has up to three times 255 characters. */
const MAX_PARAMETER = 800;

const ROUTES: readonly AddRoutes[] = [
  addCreateRoutes,
  addBodyRoutes,
  addTaskRoutes,
  addSelectionRoutes,
  addPolicyRoutes,
  addDeadLetterRoutes,
  addRedriveRoutes,
  addDestinationRoutes,
  addActivityRoutes,
  addSimulationRoutes,
  addEventRoutes,
  addKeyRoutes,
  addAlertRoutes,
  addSessionRoutes,
  addServiceRoutes,
];

const OPEN_CALLER: Caller = {
  keyId: null,
  tenantId: DEFAULT_TENANT,
  scopes: new Set(SCOPES),
  limits: {},
};

/** Creates the HTTP server of a service. Closing it does not stop the service. */
export function createApp(redrive: Redrive, options: AppOptions = {}): FastifyInstance {
  const { clock = systemClock } = options;
  const access = createAccess(clock, options);
  const context = createContext(redrive, clock, options, access);
  const arrival = new ArrivalLimit(clock, options.requestTimeoutMs ?? 30_000);
  const app = fastify(serverOptions(options, (route) => createServer(clock, options, route)));
  const paths = new RouteMethods();
  app.addHook("onRoute", (route) => {
    paths.add(route.url, route.method);
    limitRoute(context.limit, route);
  });
  addParsing(app);
  app.decorate("repeatedLines", new RepeatedLines(clock));
  addAccess(app, options, access);
  addArrivalLimit(app, arrival);
  addErrorHandlers(app, paths);
  addRoutes(app, context);
  if (options.pagesFolder !== undefined) addWebPageRoutes(app, options.pagesFolder);
  addClosing(app, context);
  return app;
}

/**
 * Waiting requests get their response, arriving requests get a moment, and then all connections
 * close.
 */
function addClosing(app: FastifyInstance, context: HttpContext): void {
  let cancel: Cancel = () => {};
  app.addHook("preClose", async () => {
    context.watch.stop();
    context.streams.stop();
    cancel = context.clock.alarm(CLOSING_MS, () => app.server.closeAllConnections());
  });
  app.addHook("onClose", async () => {
    cancel();
    context.metrics.stop();
  });
}

function serverOptions(
  { logger = false }: AppOptions,
  serverFactory: (route: RequestHandler) => Server,
): FastifyHttpOptions<Server> {
  return {
    logger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: MAX_BODY_BYTES,
    routerOptions: { maxParamLength: MAX_PARAMETER },
    serverFactory,
    clientErrorHandler: sendSocketError,
    frameworkErrors: (error, request, reply) => sendError(error, request, reply),
  };
}

function createServer(clock: Clock, options: AppOptions, handle: RequestHandler): Server {
  const { headersTimeoutMs = 10_000 } = options;
  const limits = {
    maxConnections: options.maxConnections ?? 10_000,
    maxConnectionsPerAddress: options.maxConnectionsPerAddress ?? 1000,
    sendTimeoutMs: options.sendTimeoutMs ?? 20_000,
  };
  const http = {
    headersTimeout: headersTimeoutMs,
    requestTimeout: MAX_UPLOAD_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connectionsCheckingInterval: Math.min(1000, headersTimeoutMs),
    insecureHTTPParser: false,
  };
  const server = createLimitedServer(clock, limits, http, handle);
  server.maxHeadersCount = MAX_HEADERS;
  return server;
}

function createContext(
  redrive: Redrive,
  clock: Clock,
  { keys, maxWaiting, simulator }: AppOptions,
  access: Access,
): HttpContext {
  const tenants = () =>
    new Set([DEFAULT_TENANT, ...(keys?.list() ?? []).map((key) => key.tenantId)]);
  const ofAll = <T>(ask: (tenantId: string) => Promise<T>) => Promise.all([...tenants()].map(ask));
  const limit = new TimeLimit(clock);
  return {
    redrive,
    clock,
    access,
    keys,
    limit,
    streams: new EventStreams(clock, redrive.events),
    watch: new TaskWatch(clock, {
      get: (taskId, tenantId) => limit.guard(redrive.get(taskId, tenantId)),
      onEvent: (listener) => redrive.onEvent(listener),
    }),
    arriving: new Set(),
    simulations: simulator && new Simulations(clock, simulator),
    backlog: new Backlog(clock, (tenantId) => redrive.count(tenantId), maxWaiting ?? 10_000_000),
    metrics: new Metrics({
      onEvent: (listener) => redrive.onEvent(listener),
      onCommit: (listener) => redrive.onCommit(listener),
      counts: () => ofAll((tenantId) => redrive.count(tenantId)),
      destinations: () => ofAll((tenantId) => redrive.countDestinations(tenantId)),
      openDestinations: async () =>
        (await ofAll((tenantId) => redrive.openCircuits(tenantId))).flat(),
      lateMs: () => redrive.lateMs(),
      oldestAgeMs: async () => {
        const now = redrive.now();
        const created = await ofAll(
          async (tenantId) => (await redrive.oldestOpen(tenantId)) ?? now,
        );
        return Math.max(0, now - Math.min(...created));
      },
      upkeep: () => redrive.storeUpkeep(),
      clock: () => redrive.clock(),
    }),
  };
}

/** Only JSON is accepted. Ajv validates it without changing it. */
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
  // All values of a query are strings. Only there does the validator accept "50" as a number.
  const ofTexts = new Ajv({ ...rules, coerceTypes: true });
  app.setValidatorCompiler(({ schema, httpPart, method, url }) => {
    if (httpPart === "body" && isValidatedElsewhere(method, url)) return () => true;
    return (httpPart === "querystring" ? ofTexts : strict).compile(schema as object);
  });
}

/** The bodies that their schema validates. */
const VALIDATED: ReadonlySet<string> = new Set([
  "/redrives",
  "/simulations",
  "/retry-tasks/cancel",
  "/retry-tasks/retry",
  "/dead-letters/discard",
  "/keys",
]);

/**
 * The intake and core validate tasks, policies and destinations; their schemas here are
 * documentation.
 */
function isValidatedElsewhere(method: string, url: string): boolean {
  return !(method === "POST" && VALIDATED.has(url));
}

function createAccess(clock: Clock, options: AppOptions): Access {
  const { keys, hosts = [], requestsPerSecond = 5000, requestsAtOnce = 1000 } = options;
  return new Access(clock, {
    keys,
    sessions: new Sessions(options.sessionSecret ?? systemBytes(SESSION_SECRET_BYTES)),
    hosts,
    requestsPerSecond,
    requestsAtOnce,
    openCaller: OPEN_CALLER,
  });
}

function addAccess(app: FastifyInstance, options: AppOptions, access: Access): void {
  const { keys } = options;
  app.decorate("requiresKey", keys !== undefined);
  app.decorate("isOpenToAll", options.insecureNoAuth === true && keys === undefined);
  app.decorateRequest("caller", null);
  app.addHook("onRequest", (request, reply, done) => {
    reply.header("x-content-type-options", "nosniff");
    try {
      request.caller = callerOf(access, request, reply);
      done();
    } catch (error) {
      done(error as Error);
    }
  });
}

function callerOf(access: Access, request: FastifyRequest, reply: FastifyReply): Caller {
  const { raw, routeOptions } = request;
  return access.check(raw, reply.raw, scopeOf(request), routeOptions.config.upload === true);
}

/** After the access check, so that a refused request is not watched. */
function addArrivalLimit(app: FastifyInstance, arrival: ArrivalLimit): void {
  app.addHook("onRequest", (request, _reply, done) => {
    const { raw, routeOptions } = request;
    arrival.watch(raw, routeOptions.config.upload === true);
    done();
  });
}

/** Without a key, a caller cannot find out which paths exist. */
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
    const text = `this path supports ${methods.join(", ")}, not ${request.method}`;
    return sendError(serviceError("METHOD_NOT_ALLOWED", text), request, reply);
  });
}

/** Extensions of OpenAPI begin with `x-`. */
const INFO = {
  title: "Redrive",
  version: "0.1.0",
  description:
    "Submit an HTTP call. Redrive stores it, attempts it and retries it until it succeeds or becomes a dead letter. Instants (...At) are epoch milliseconds; durations (...Ms) are milliseconds. Errors are application/problem+json with a stable code. An idempotency key is kept while its task lives and for 24 hours after its end.",
  "x-problems": problemCatalog(),
};

function addRoutes(app: FastifyInstance, context: HttpContext): void {
  app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: INFO,
      components: {
        securitySchemes: {
          key: { type: "http", scheme: "bearer" },
          session: { type: "apiKey", in: "cookie", name: SESSION_COOKIE },
        },
      },
      security: [{ key: [] }, { session: [] }],
    },
  });
  // In a plugin: swagger describes only the routes that are added after it.
  app.register((scope, _options, done) => {
    for (const add of ROUTES) add(scope, context);
    done();
  });
}

// Route methods: the methods of each path, so that a wrong method (405) differs from a wrong path
// (404).

export class RouteMethods {
  readonly #methods = new Map<string, { readonly pattern: RegExp; readonly names: Set<string> }>();

  add(path: string, methods: string | readonly string[]): void {
    const known = this.#methods.get(path) ?? { pattern: patternOf(path), names: new Set<string>() };
    for (const method of typeof methods === "string" ? [methods] : methods) known.names.add(method);
    this.#methods.set(path, known);
  }

  /** The methods of the path, sorted; empty if the path does not exist. */
  methodsOf(url: string): readonly string[] {
    const path = url.split("?", 1)[0] ?? "";
    const known = [...this.#methods.values()].filter(({ pattern }) => pattern.test(path));
    return [...new Set(known.flatMap(({ names }) => [...names]))].sort();
  }
}

function patternOf(path: string): RegExp {
  const parts = path.split("/").map((part) => (part.startsWith(":") ? "[^/]+" : escapePart(part)));
  return new RegExp(`^${parts.join("/")}$`);
}

function escapePart(part: string): string {
  return part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
