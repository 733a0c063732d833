/** Alert routes: where alerts are posted, which fire now, and a test of the way there. */
import type { FastifyInstance, FastifyRequest } from "fastify";
import { serviceError } from "../../model/errors.ts";
import { DEFAULT_TENANT } from "../../model/task.ts";
import { AlertsView, TestAlert } from "../../schemas/setting-schemas.ts";
import { type AddRoutes, type HttpContext, tenantOf } from "../context/http-context.ts";
import { maskQuery } from "../response/views.ts";

const tags = ["settings"];
const config = { scope: "admin" } as const;

export const addAlertRoutes: AddRoutes = (app, context) => {
  app.get(
    "/alerts",
    { config, schema: { tags, summary: "Show the alerts", response: { 200: AlertsView } } },
    async (request) => {
      assertOperator(app, request);
      return viewOf(context);
    },
  );
  app.post(
    "/alerts/test",
    {
      config,
      schema: {
        tags,
        summary: "Post a test alert",
        description: "Posts an alert of the type alert.test, by a task like any other alert.",
        response: { 202: TestAlert },
      },
    },
    async (request, reply) => {
      assertOperator(app, request);
      const { alerts } = context.redrive;
      if (alerts === undefined) throw serviceError("NOT_FOUND", NO_ALERTS);
      const taskId = await alerts.test();
      reply.code(202);
      return { taskId };
    },
  );
};

const NO_ALERTS = "the service has no alerts: start it with --alert-url";

/** Alerts are about all tenants. */
function assertOperator({ requiresKey }: FastifyInstance, request: FastifyRequest): void {
  if (!requiresKey || tenantOf(request) === DEFAULT_TENANT) return;
  const text = `alerts cover every tenant: use a key of the tenant "${DEFAULT_TENANT}"`;
  throw serviceError("FORBIDDEN", text);
}

function viewOf({ redrive: { alerts } }: HttpContext): AlertsView {
  if (alerts === undefined) {
    const none = { deadLetterRatio: null, windowMs: null, lateMs: null, runbookUrl: null };
    return { url: null, destination: null, ...none, firing: [] };
  }
  const { url, deadLetterRatio, windowMs, lateMs, runbookUrl } = alerts.options;
  const firing = alerts.firing().map(({ kind, since, tenantId, destination }) => ({
    ...{ alert: kind, sinceAt: since },
    ...{ tenantId: tenantId ?? null, destination: destination ?? null },
  }));
  const shown = { url: maskQuery(url), destination: alerts.destination };
  return { ...shown, deadLetterRatio, windowMs, lateMs, runbookUrl, firing };
}
