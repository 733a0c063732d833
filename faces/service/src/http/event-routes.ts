/** Event routes: `GET /events`, what happens on this node as server-sent events. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { EngineEvent } from "../engine/events.ts";
import { DEFAULT_TENANT } from "../model/task.ts";
import { Type } from "../schemas/schema-builder.ts";
import { EventQuery } from "../schemas/task-schemas.ts";
import { type AddRoutes, type HttpContext, tenantOf } from "./http-context.ts";

const HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  // Tells nginx not to collect the events.
  "x-accel-buffering": "no",
};

type EventRequest = FastifyRequest<{ Querystring: EventQuery }>;

export const addEventRoutes: AddRoutes = (app, context) => {
  app.get<{ Querystring: EventQuery }>(
    "/events",
    {
      config: { scope: "tasks:read", limit: "own" },
      schema: {
        tags: ["events"],
        summary: "Follow what happens, as server-sent events",
        description:
          "The events of the node that answers. After a disconnect, send the last id as Last-Event-ID: the events since then follow, if they are among the latest 10,000 of the node. Otherwise the first event is a reset, and the reader must read the state again. A silent stream gets a comment every 14 seconds.",
        querystring: EventQuery,
        response: { 200: { content: { "text/event-stream": { schema: Type.String() } } } },
      },
    },
    (request, reply) => follow(app, context, request, reply),
  );
};

function follow(
  app: FastifyInstance,
  { streams, access }: HttpContext,
  request: EventRequest,
  reply: FastifyReply,
): void {
  streams.assertRoom();
  const { headers, query } = request;
  const isLive = () => access.isStillValid(request);
  // A browser that has no id sends an empty one or none.
  const lastEventId = textOf(headers["last-event-id"]) ?? textOf(query.lastEventId);
  const isWanted = wantedEvents(query, visibleEvents(app, request));
  reply.hijack();
  reply.raw.writeHead(200, HEADERS);
  streams.add(reply.raw, { lastEventId, isWanted, isLive });
}

function textOf(value: string | string[] | undefined): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

type EventTest = (event: EngineEvent) => boolean;

/** Events without a tenant are about the node. They are for the operator, like the metrics. */
function visibleEvents({ requiresKey }: FastifyInstance, request: FastifyRequest): EventTest {
  const tenant = tenantOf(request);
  const isOperator = !requiresKey || tenant === DEFAULT_TENANT;
  return ({ tenantId }) => (tenantId === undefined ? isOperator : tenantId === tenant);
}

function wantedEvents(query: EventQuery, isVisible: EventTest): EventTest {
  const { type, destination, taskId, label } = query;
  const types = type === undefined ? undefined : new Set(type.split(","));
  const at = label?.indexOf("=") ?? -1;
  const [name, value] = [label?.slice(0, at) ?? "", label?.slice(at + 1)];
  return (event) =>
    isVisible(event) &&
    (types === undefined || types.has(event.type) || types.has(familyOf(event.type))) &&
    (destination === undefined || event.destination === destination) &&
    (taskId === undefined || event.taskId === taskId) &&
    (label === undefined || event.labels?.[name] === value);
}

/** `attempt` of `attempt.failed`. */
function familyOf(type: string): string {
  return type.slice(0, type.indexOf("."));
}
