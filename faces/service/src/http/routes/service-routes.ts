/** Service routes: liveness, readiness, metrics and API documentation. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { serviceError } from "../../model/errors.ts";
import { DEFAULT_TENANT } from "../../model/task.ts";
import { Type } from "../../schemas/schema-builder.ts";
import { type AddRoutes, type HttpContext, tenantOf } from "../context/http-context.ts";
import { inReadingOrder } from "../response/operation-order.ts";
import {
  REVALIDATE,
  type StaticContent,
  sendStatic,
  staticContent,
} from "../response/static-content.ts";
import { docsPage, docsStyle } from "./docs-page.ts";

const Health = Type.Object({
  status: Type.Enum(["ok", "unavailable"]),
  warning: Type.Optional(Type.String({ description: "The service runs with an unsafe setting." })),
});

const Readiness = Type.Object({
  ...Health.properties,
  clock: Type.Object(
    {
      state: Type.Enum(["synced", "following", "ahead", "refused"]),
      skewMs: Type.Number({ description: "How far the clock is ahead of the service's time." }),
    },
    { description: "How the time of the service relates to the machine's clock." },
  ),
  unreadableDocuments: Type.Integer({
    description: "Stored documents that this version cannot read, so that their tasks are held.",
  }),
});

const OPEN_TO_ALL = { warning: "insecure-no-auth: anyone who can reach this address may call" };

const tags = ["service"];
const open = { scope: "public", limit: "own" } as const;

/** Allows only our own style sheet: no script, no frame, no other origin. */
const CONTENT_POLICY =
  "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export const addServiceRoutes: AddRoutes = (app, context) => {
  const health = (summary: string, schema: typeof Health | typeof Readiness) => ({
    config: open,
    schema: { tags, summary, response: { 200: schema, 503: schema } },
  });
  app.get("/healthz", health("Check that the process responds", Health), async () => ({
    status: "ok",
    ...(app.isOpenToAll && OPEN_TO_ALL),
  }));
  app.get(
    "/readyz",
    health("Check that the store responds and tasks are accepted", Readiness),
    (_, reply) => ready(context, reply),
  );
  app.get(
    "/metrics",
    { config: { scope: "metrics:read" }, schema: { tags, summary: "Metrics for Prometheus" } },
    async (request, reply) => {
      assertOperator(app, request);
      const { registry } = context.metrics;
      reply.type(registry.contentType);
      return registry.metrics();
    },
  );
  addDocsRoutes(app);
};

/** Metrics reveal every tenant's activity and the names of its policies. */
function assertOperator({ requiresKey }: FastifyInstance, request: FastifyRequest): void {
  if (!requiresKey || tenantOf(request) === DEFAULT_TENANT) return;
  const text = `metrics cover every tenant: use a key of the tenant "${DEFAULT_TENANT}"`;
  throw serviceError("FORBIDDEN", text);
}

/** The documents are built at their first request: by then all routes are known. */
function addDocsRoutes(app: FastifyInstance): void {
  const page = (type: string, text: () => string) => {
    let content: StaticContent | undefined;
    return async (request: FastifyRequest, reply: FastifyReply) => {
      content ??= staticContent(Buffer.from(text()), { type, cache: REVALIDATE });
      return sendStatic(content, request, reply.header("content-security-policy", CONTENT_POLICY));
    };
  };
  const hide = { config: open, schema: { hide: true } };
  const description = () => inReadingOrder(app.swagger());
  const json = () => JSON.stringify(description());
  app.get("/openapi.json", hide, page("application/json; charset=utf-8", json));
  app.get(
    "/docs",
    hide,
    page("text/html; charset=utf-8", () => {
      return docsPage(description(), app.hasRoute({ method: "GET", url: "/ui/docs" }));
    }),
  );
  app.get(
    "/docs/style.css",
    hide,
    page("text/css; charset=utf-8", () => docsStyle),
  );
}

async function ready(context: HttpContext, reply: FastifyReply) {
  const { redrive } = context;
  const unreadableDocuments = redrive.unreadableDocuments().length;
  const details = { clock: redrive.clock(), unreadableDocuments };
  if (await isReady(context)) return { status: "ok", ...details };
  return reply
    .code(503)
    .header("retry-after", "1")
    .send({ status: "unavailable", ...details });
}

/** Reads a task that never exists. */
async function isReady({ redrive, limit }: HttpContext): Promise<boolean> {
  try {
    await limit.guard(redrive.get("ready?"));
    return redrive.isRunning();
  } catch {
    return false;
  }
}
