/** Activity routes: what happened in the last hour, of a tenant and of a destination. */
import type { FastifyRequest } from "fastify";
import { ActivityView, DestinationHistory } from "../../schemas/activity-schemas.ts";
import { DestinationParams } from "../../schemas/operation-schemas.ts";
import { type AddRoutes, type HttpContext, tenantOf } from "../context/http-context.ts";

const read = { scope: "tasks:read" } as const;

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
