/** Destination routes: the health of destinations, their guards, pause and resume. */
import { DocumentError, isObject } from "@redrive/core";
import type { FastifyRequest } from "fastify";
import { assertKeyTargets } from "../intake/task-intake.ts";
import type { ServiceDocument } from "../model/delivery/delivery-settings.ts";
import { serviceError } from "../model/errors.ts";
import type { DestinationHealth, DestinationHealthPage } from "../operations/destination-health.ts";
import {
  ActivityView,
  DestinationHistory,
  DestinationList,
  DestinationParams,
  DestinationQuery,
  DestinationToStore,
  DestinationView,
  TargetToEnable,
} from "../schemas/operation-schemas.ts";
import {
  type AddRoutes,
  callerOf,
  type HttpContext,
  tenantOf,
  visibilityFor,
} from "./http-context.ts";
import { type CursorScope, readCursor, writeCursor } from "./list-query.ts";
import { viewDestination } from "./views.ts";

const tags = ["destinations"];
const read = { scope: "tasks:read" } as const;
const write = { scope: "admin" } as const;

type NamedRequest = FastifyRequest<{ Params: DestinationParams }>;

export const addDestinationRoutes: AddRoutes = (app, context) => {
  app.get<{ Querystring: DestinationQuery }>(
    "/destinations",
    {
      config: read,
      schema: {
        tags,
        summary: "List destinations by name",
        querystring: DestinationQuery,
        response: { 200: DestinationList },
      },
    },
    (request) => list(context, request),
  );
  const one = (summary: string) => ({
    tags,
    summary,
    description: "Percent-encode a name that is an origin: http%3A%2F%2F127.0.0.1%3A8080.",
    params: DestinationParams,
    response: { 200: DestinationView },
  });
  app.get<{ Params: DestinationParams }>(
    "/destinations/:name",
    { config: read, schema: one("Get the health of a destination") },
    async (request) => viewDestination(await find(context, request), visibilityFor(request, false)),
  );
  app.put<{ Params: DestinationParams }>(
    "/destinations/:name",
    {
      config: write,
      schema: { ...one("Set a destination's guards"), body: DestinationToStore },
    },
    (request) => configure(context, request),
  );
  app.post<{ Params: DestinationParams }>(
    "/destinations/:name/pause",
    { config: write, schema: one("Pause a destination: no attempts until it is resumed") },
    (request) => change(context, request, "pause"),
  );
  app.post<{ Params: DestinationParams }>(
    "/destinations/:name/close-breaker",
    { config: write, schema: one("Close an open breaker: calls start again, slowly at first") },
    (request) => change(context, request, "closeBreaker"),
  );
  app.post<{ Params: DestinationParams }>(
    "/destinations/:name/probe",
    { config: write, schema: one("Let an open breaker send the next due task as a probe now") },
    (request) => change(context, request, "probe"),
  );
  app.post<{ Params: DestinationParams; Body: TargetToEnable }>(
    "/destinations/:name/enable",
    {
      config: write,
      schema: {
        ...one("Send to a target URL again that responded 410 Gone"),
        body: TargetToEnable,
      },
    },
    (request) => enable(context, request),
  );
  app.post<{ Params: DestinationParams }>(
    "/destinations/:name/resume",
    { config: write, schema: one("Resume a destination") },
    (request) => change(context, request, "resume"),
  );
};

async function list(
  { redrive }: HttpContext,
  request: FastifyRequest<{ Querystring: DestinationQuery }>,
): Promise<DestinationHealthPage> {
  const { limit = 50, cursor } = request.query;
  const tenantId = tenantOf(request);
  const scope: CursorScope = { tenantId, list: "destinations" };
  const page = { limit, ...(cursor !== undefined && { cursor: readCursor(scope, cursor) }) };
  const { destinations, cursor: next } = await redrive.health(page, tenantId);
  const visibility = visibilityFor(request, false);
  const shown = destinations.map((one) => viewDestination(one, visibility));
  return { destinations: shown, cursor: writeCursor(scope, next) };
}

async function find({ redrive }: HttpContext, request: NamedRequest): Promise<DestinationHealth> {
  const { name } = request.params;
  const found = await redrive.healthOf(name, tenantOf(request));
  if (found !== null) return found;
  throw serviceError("NOT_FOUND", `there is no destination ${JSON.stringify(name)}`);
}

async function configure(context: HttpContext, request: NamedRequest): Promise<DestinationHealth> {
  const { name } = request.params;
  const body: unknown = request.body;
  if (!isObject(body)) throw wrong("", "the destination must be an object");
  assertKeyTargets(callerOf(request).limits.targets, [body["deadLetterUrl"]]);
  await context.redrive.configure(name, body as ServiceDocument, tenantOf(request), byOf(request));
  return find(context, request);
}

type DestinationVerb = "pause" | "resume" | "closeBreaker" | "probe";

async function change(context: HttpContext, request: NamedRequest, verb: DestinationVerb) {
  const { name } = await find(context, request);
  await context.redrive[verb](name, tenantOf(request), byOf(request));
  return find(context, request);
}

async function enable(
  context: HttpContext,
  request: FastifyRequest<{ Params: DestinationParams; Body: TargetToEnable }>,
): Promise<DestinationHealth> {
  const { name, disabledTargets } = await find(context, request);
  const { targetUrl } = request.body;
  if (!disabledTargets.some((target) => target.targetUrl === targetUrl)) {
    throw serviceError("NOT_FOUND", `${JSON.stringify(targetUrl)} is not disabled`);
  }
  await context.redrive.enableTarget(name, targetUrl, tenantOf(request), byOf(request));
  return find(context, request);
}

/** For the event that the log keeps. */
function byOf(request: FastifyRequest): string {
  const { keyId } = callerOf(request);
  return keyId === null ? "a caller without a key" : `key ${keyId}`;
}

function wrong(field: string, message: string): Error {
  return new DocumentError("INVALID_DESTINATION", [{ field, value: undefined, message }]);
}

/** What happened in the last hour, of a tenant and of a destination. */
export const addActivityRoutes: AddRoutes = (app, context) => {
  const { redrive } = context;
  redrive.activity.start();
  app.get(
    "/activity",
    {
      config: read,
      schema: {
        tags: ["tasks"],
        summary: "Count the last hour per minute",
        description:
          "New tasks, attempts, retries (attempts after the first), successes, dead letters and cancels of all nodes, and the age of the oldest open task. The last minute is the current one. The counts of other nodes, and of processes before a restart, may lack their last minute.",
        response: { 200: ActivityView },
      },
    },
    (request) => redrive.activity.ofTenant(tenantOf(request), redrive.now()),
  );
  app.get<{ Params: DestinationParams }>(
    "/destinations/:name/history",
    {
      config: read,
      schema: {
        tags: ["destinations"],
        summary: "Get the last hour of a destination",
        description:
          "Attempts per minute, and the changes of the concurrency limit with their reasons, since the start of the node that answers.",
        params: DestinationParams,
        response: { 200: DestinationHistory },
      },
    },
    async (request) => historyOf(context, request),
  );
};

function historyOf(
  { redrive }: HttpContext,
  request: FastifyRequest<{ Params: DestinationParams }>,
): DestinationHistory {
  const { name } = request.params;
  const tenantId = tenantOf(request);
  const lastHour = redrive.activity.ofDestination(tenantId, name, redrive.now());
  const counts = { ...lastHour.counts } as DestinationHistory["counts"];
  return { ...lastHour, counts, limits: [...redrive.limitChanges(name, tenantId)] };
}
