/** Session routes: sign a browser in with an API key, show who is signed in, and sign out. */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Static } from "typebox";
import { serviceError } from "../../model/errors.ts";
import { Type } from "../../schemas/schema-builder.ts";
import type { Caller } from "../access/access.ts";
import { sessionCookie } from "../access/sessions.ts";
import { type AddRoutes, callerOf, type HttpContext } from "../context/http-context.ts";

const SignIn = Type.Object(
  { key: Type.String({ maxLength: 200, description: "The API key: rdv_..." }) },
  { additionalProperties: false },
);

const CallerView = Type.Object({
  tenantId: Type.String(),
  scopes: Type.Array(Type.String()),
  requiresKey: Type.Boolean({ description: "False: everybody may call, so nobody signs in." }),
});
type CallerView = Static<typeof CallerView>;

const SessionView = Type.Object({
  ...CallerView.properties,
  expiresAt: Type.Union([Type.Integer(), Type.Null()], {
    description: "When the session ends. Null: the service requires no key, so there is no cookie.",
  }),
});
type SessionView = Static<typeof SessionView>;

const tags = ["service"];
const open = { scope: "public", limit: "own" } as const;

export const addSessionRoutes: AddRoutes = (app, context) => {
  app.post(
    "/ui/session",
    {
      config: open,
      schema: {
        tags,
        summary: "Sign a browser in",
        description:
          "Exchanges an API key for an HttpOnly cookie with the same rights, for 12 hours. Writes with the cookie need an Origin header of this host.",
        body: SignIn,
        response: { 200: SessionView },
      },
    },
    async (request, reply) => signIn(context, request, reply),
  );
  app.get(
    "/ui/session",
    {
      config: { scope: "tasks:read", limit: "own" },
      schema: { tags, summary: "Show who is signed in", response: { 200: CallerView } },
    },
    async (request) => viewOf(context, callerOf(request)),
  );
  app.delete(
    "/ui/session",
    { config: open, schema: { tags, summary: "Sign a browser out" } },
    async (request, reply) => {
      reply.header("set-cookie", sessionCookie("", 0, isSecure(request))).code(204);
    },
  );
};

function signIn(context: HttpContext, request: FastifyRequest, reply: FastifyReply): SessionView {
  const { key } = (request.body ?? {}) as { readonly key?: unknown };
  if (typeof key !== "string") {
    throw serviceError("INVALID_REQUEST", 'send the API key as { "key": "rdv_..." }');
  }
  const { access, clock } = context;
  const { caller, session } = access.signIn(key);
  if (session === undefined) return { ...viewOf(context, caller), expiresAt: null };
  const maxAgeMs = session.expiresAt - clock.now();
  reply.header("set-cookie", sessionCookie(session.value, maxAgeMs, isSecure(request)));
  return { ...viewOf(context, caller), expiresAt: session.expiresAt };
}

function viewOf({ keys }: HttpContext, { tenantId, scopes }: Caller): CallerView {
  return { tenantId, scopes: [...scopes], requiresKey: keys !== undefined };
}

/** Only the browser knows whether a proxy in front of the service speaks https. */
function isSecure({ headers }: FastifyRequest): boolean {
  return headers.origin?.toLowerCase().startsWith("https:") ?? false;
}
