/**
 * Destination routes: how destinations do, their limits, and their pauses.
 */
import type { DestinationDocument } from "@redrive/core";
import { DocumentError, isObject } from "@redrive/core";
import type { FastifyRequest } from "fastify";
import { serviceError } from "../../model/errors.ts";
import type { DestinationHealth } from "../../operations/destination-health.ts";
import {
  DestinationList,
  DestinationParams,
  DestinationToStore,
  DestinationView,
} from "../../schemas/operation-schemas.ts";
import { type AddRoutes, type HttpContext, tenantOf } from "../context/http-context.ts";

const tags = ["destinations"];
const read = { scope: "tasks:read" } as const;
const write = { scope: "admin" } as const;

const NAME = /^[\x21-\x7e]{1,255}$/;

type NamedRequest = FastifyRequest<{ Params: DestinationParams }>;

export const addDestinationRoutes: AddRoutes = (app, context) => {
  app.get(
    "/destinations",
    {
      config: read,
      schema: { tags, summary: "All destinations", response: { 200: DestinationList } },
    },
    async (request) => {
      const all = await context.redrive.health(tenantOf(request));
      return { destinations: all };
    },
  );
  const one = (summary: string) => ({
    tags,
    summary,
    description: "A name that is an origin is percent-encoded: http%3A%2F%2F127.0.0.1%3A8080.",
    params: DestinationParams,
    response: { 200: DestinationView },
  });
  app.get<{ Params: DestinationParams }>(
    "/destinations/:name",
    { config: read, schema: one("How a destination does") },
    (request) => find(context, request),
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
    { config: write, schema: one("Attempt nothing there until it is resumed") },
    (request) => pause(context, request, true),
  );
  app.post<{ Params: DestinationParams }>(
    "/destinations/:name/resume",
    { config: write, schema: one("Go on there") },
    (request) => pause(context, request, false),
  );
};

async function find({ redrive }: HttpContext, request: NamedRequest): Promise<DestinationHealth> {
  const { name } = request.params;
  const [found] = await redrive.health(tenantOf(request), name);
  if (found !== undefined) return found;
  throw serviceError("NOT_FOUND", `there is no destination ${JSON.stringify(name)}`);
}

async function configure(context: HttpContext, request: NamedRequest): Promise<DestinationHealth> {
  const { name } = request.params;
  if (!NAME.test(name)) throw wrong("name", "name must be 1 to 255 visible ASCII characters");
  const body: unknown = request.body;
  if (!isObject(body)) throw wrong("", "the document must be an object");
  await context.redrive.configure(name, body as DestinationDocument, tenantOf(request));
  return find(context, request);
}

async function pause(context: HttpContext, request: NamedRequest, isPause: boolean) {
  const { name } = await find(context, request);
  const tenantId = tenantOf(request);
  if (isPause) await context.redrive.pause(name, tenantId);
  else await context.redrive.resume(name, tenantId);
  return find(context, request);
}

function wrong(field: string, message: string): Error {
  return new DocumentError("INVALID_DESTINATION", [{ field, value: undefined, message }]);
}
