/**
 * Service routes: whether the service lives, whether it is ready, what it has done, and how it is
 * to be used.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { serviceError } from "../../model/errors.ts";
import { DEFAULT_TENANT } from "../../model/task.ts";
import { type AddRoutes, type HttpContext, tenantOf } from "../context/http-context.ts";
import { docsPage, docsStyle } from "./docs-page.ts";

const Health = Type.Object({
  status: Type.Enum(["ok", "unavailable"]),
  warning: Type.Optional(Type.String({ description: "It runs in a way that it should not." })),
});

const OPEN_TO_ALL = { warning: "insecure-no-auth: anybody who reaches this address may call" };

const tags = ["service"];
const open = { scope: "public", limit: "own" } as const;

/** Nothing but our own style sheet: no script, no frame, no other origin. */
const CONTENT_POLICY =
  "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export const addServiceRoutes: AddRoutes = (app, context) => {
  const health = (summary: string) => ({
    config: open,
    schema: { tags, summary, response: { 200: Health, 503: Health } },
  });
  app.get("/healthz", health("Does the process answer?"), async () => ({
    status: "ok",
    ...(app.isOpenToAll && OPEN_TO_ALL),
  }));
  app.get("/readyz", health("Does the store answer, so that tasks are taken?"), (_, reply) =>
    ready(context, reply),
  );
  app.get(
    "/metrics",
    { config: { scope: "metrics:read" }, schema: { tags, summary: "For Prometheus" } },
    async (request, reply) => {
      assertOperator(app, request);
      const { registry } = context.metrics;
      reply.type(registry.contentType);
      return registry.metrics();
    },
  );
  addDocsRoutes(app);
};

/** They tell of all tenants: how much each does, and what its policies are called. */
function assertOperator({ requiresKey }: FastifyInstance, request: FastifyRequest): void {
  if (!requiresKey || tenantOf(request) === DEFAULT_TENANT) return;
  const text = `metrics tell of every tenant: a key of the tenant "${DEFAULT_TENANT}" is needed`;
  throw serviceError("FORBIDDEN", text);
}

function addDocsRoutes(app: FastifyInstance): void {
  const hide = { config: open, schema: { hide: true } };
  app.get("/openapi.json", hide, async () => app.swagger());
  app.get("/docs", hide, async (_, reply) => {
    reply.header("content-security-policy", CONTENT_POLICY);
    return reply.type("text/html; charset=utf-8").send(docsPage(app.swagger()));
  });
  app.get("/docs/style.css", hide, async (_, reply) => reply.type("text/css").send(docsStyle));
}

async function ready(context: HttpContext, reply: FastifyReply) {
  if (await isReady(context)) return { status: "ok" };
  return reply.code(503).header("retry-after", "1").send({ status: "unavailable" });
}

/** Asks the store for something small that is never there. */
async function isReady({ redrive, limit }: HttpContext): Promise<boolean> {
  try {
    await limit.guard(redrive.get("ready?"));
    return redrive.isRunning();
  } catch {
    return false;
  }
}
