/** Destination routes: the health of destinations, their guards, pause and resume. */
import { DocumentError, isObject } from "@redrive/core";
import type { FastifyRequest } from "fastify";
import { assertKeyTargets } from "../../intake/targets/key-targets.ts";
import type { ServiceDocument } from "../../model/delivery/delivery-settings.ts";
import { serviceError } from "../../model/errors.ts";
import type {
  DestinationHealth,
  DestinationHealthPage,
} from "../../operations/destination-health.ts";
import {
  DestinationList,
  DestinationParams,
  DestinationQuery,
  DestinationToStore,
  DestinationView,
  TargetToEnable,
} from "../../schemas/operation-schemas.ts";
import {
  type AddRoutes,
  callerOf,
  type HttpContext,
  tenantOf,
  visibilityFor,
} from "../context/http-context.ts";
import { type CursorScope, readCursor, writeCursor } from "../request/cursor.ts";
import { viewDestination } from "../response/destination-view.ts";

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
    (request) => pause(context, request, true),
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
    (request) => pause(context, request, false),
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
  await context.redrive.configure(name, body as ServiceDocument, tenantOf(request));
  return find(context, request);
}

async function pause(context: HttpContext, request: NamedRequest, isPause: boolean) {
  const { name } = await find(context, request);
  const tenantId = tenantOf(request);
  if (isPause) await context.redrive.pause(name, tenantId);
  else await context.redrive.resume(name, tenantId);
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
  await context.redrive.enableTarget(name, targetUrl, tenantOf(request));
  return find(context, request);
}

function wrong(field: string, message: string): Error {
  return new DocumentError("INVALID_DESTINATION", [{ field, value: undefined, message }]);
}
