/** Service routes: liveness, readiness, metrics and API documentation. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { serviceError } from "../model/errors.ts";
import { DEFAULT_TENANT } from "../model/task.ts";
import { Type } from "../schemas/schema-builder.ts";
import { type AddRoutes, type HttpContext, tenantOf } from "./http-context.ts";
import {
  docsPage,
  docsStyle,
  REVALIDATE,
  type StaticContent,
  sendStatic,
  staticContent,
} from "./page-routes.ts";

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
  encryption: Type.Optional(
    Type.Object(
      {
        keys: Type.Array(Type.String(), { description: "Of this node, the current one first." }),
        nodes: Type.Integer({ description: "The live nodes of the fleet." }),
        nodesWith: Type.Record(Type.String(), Type.Integer(), {
          description: "How many of them have each key.",
        }),
      },
      { description: "Encryption keys, by ids that reveal nothing about them." },
    ),
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
  if (await isReady(context)) {
    const encryption = await context.limit.guard(redrive.encryption()).catch(() => undefined);
    return { status: "ok", ...details, encryption };
  }
  return reply
    .code(503)
    .header("retry-after", "1")
    .send({ status: "unavailable", ...details });
}

/** Reads a task that never exists. */
async function isReady({ redrive, limit }: HttpContext): Promise<boolean> {
  try {
    await limit.guard(redrive.get("ready?"));
    return redrive.isRunning() && redrive.canCommit();
  } catch {
    return false;
  }
}

// Operation order: sorts the paths of the API description for people who read it. A collection
// comes first, then one of its items, then the other operations; creating comes before reading.

type Paths = Readonly<Record<string, object | undefined>>;

const METHODS = ["post", "get", "put", "delete"];

/** The same document with its paths in reading order. The parts of the API keep their order. */
export function inReadingOrder<T extends { readonly paths?: Paths | undefined }>(document: T): T {
  const { paths = {} } = document;
  const roots = [...new Set(Object.keys(paths).map(rootOf))];
  const sorted = Object.entries(paths).toSorted(
    ([one], [other]) =>
      roots.indexOf(rootOf(one)) - roots.indexOf(rootOf(other)) ||
      rankOf(one) - rankOf(other) ||
      (one < other ? -1 : 1),
  );
  return {
    ...document,
    paths: Object.fromEntries(sorted.map(([path, item]) => [path, sortedMethods(item)])),
  };
}

function rootOf(path: string): string {
  return path.split("/")[1] ?? "";
}

/** The collection, one of its items, anything else. */
function rankOf(path: string): number {
  const second = path.split("/")[2];
  if (second === undefined) return 0;
  return second.startsWith("{") ? 1 : 2;
}

function sortedMethods(item: object = {}): object {
  return Object.fromEntries(
    Object.entries(item).toSorted(([one], [other]) => methodRank(one) - methodRank(other)),
  );
}

/** Anything else comes last: a method that is not listed, and what all methods of a path share. */
function methodRank(key: string): number {
  const rank = METHODS.indexOf(key);
  return rank < 0 ? METHODS.length : rank;
}
