/**
 * Setting routes: API keys, the session of a browser, and alerts. A caller sees and changes the
 * keys of its own tenant; the operator, an admin of the tenant `default`, those of all tenants. A
 * new key has the limits of the key that created it, so that no key can get around its own.
 */
import { quote, systemBytes } from "@redrive/core";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Static } from "typebox";
import { serviceError } from "../model/errors.ts";
import { DEFAULT_TENANT } from "../model/task.ts";
import { Type } from "../schemas/schema-builder.ts";
import {
  AlertsView,
  CreatedKey,
  KeyList,
  KeyParams,
  KeyToCreate,
  type KeyView,
  TestAlert,
} from "../schemas/setting-schemas.ts";
import {
  type Caller,
  createKey,
  type KeyRecord,
  type KeyStore,
  SCOPES,
  type Scope,
  sessionCookie,
} from "./access.ts";
import { type AddRoutes, callerOf, type HttpContext, tenantOf } from "./http-context.ts";
import { maskQuery } from "./views.ts";

const tags = ["settings"];
const config = { scope: "admin", limit: "own" } as const;

/** Tenants of keys are part of every row, so their names are short and plain. */
const TENANT = /^[A-Za-z0-9._-]{1,64}$/u;

export const addKeyRoutes: AddRoutes = (app, context) => {
  app.get(
    "/keys",
    { config, schema: { tags, summary: "List API keys", response: { 200: KeyList } } },
    async (request) => listKeys(context, request),
  );
  app.post<{ Body: KeyToCreate }>(
    "/keys",
    {
      config,
      schema: {
        tags,
        summary: "Create an API key",
        description: "The response contains the key. The service stores only its hash.",
        body: KeyToCreate,
        response: { 201: CreatedKey },
      },
    },
    async (request, reply) => addKey(context, request, reply),
  );
  app.delete<{ Params: KeyParams }>(
    "/keys/:keyId",
    {
      config,
      schema: {
        tags,
        summary: "Revoke an API key",
        description: "Its sessions and streams end within seconds.",
        params: KeyParams,
      },
    },
    async (request, reply) => {
      revokeKey(context, request);
      reply.code(204);
    },
  );
};

function listKeys({ keys }: HttpContext, request: FastifyRequest): KeyList {
  const visible = keys?.list().filter((record) => maySee(request, record)) ?? [];
  return {
    isRequired: keys !== undefined,
    isChangeable: keys?.isChangeable ?? false,
    keys: visible.map((record) => viewOf(request, record, keys)),
  };
}

function addKey(
  { keys, clock }: HttpContext,
  request: FastifyRequest<{ Body: KeyToCreate }>,
  reply: FastifyReply,
): CreatedKey {
  const store = changeable(keys);
  const { limits } = callerOf(request);
  const { name, scopes, tenantId = tenantOf(request), expiresAt } = request.body;
  const now = clock.now();
  assertTenant(request, tenantId);
  if (expiresAt !== undefined && expiresAt <= now) {
    throw wrong(`expiresAt must be in the future, got ${expiresAt}`);
  }
  const { key, record } = createKey((bytes) => bytes.set(systemBytes(bytes.length)), {
    ...{ tenantId, scopes: scopes.map(scopeOf), name, now },
    ...(expiresAt !== undefined && { expiresAt }),
    ...(Object.keys(limits).length > 0 && { limits }),
  });
  store.add(record);
  reply.code(201);
  return { ...viewOf(request, record, store), key };
}

function revokeKey({ keys }: HttpContext, request: FastifyRequest<{ Params: KeyParams }>): void {
  const { keyId } = request.params;
  const record = keys?.find(keyId);
  if (record === undefined || !maySee(request, record)) {
    throw serviceError("NOT_FOUND", `there is no key ${quote(keyId)}`);
  }
  if (keys?.revoke(keyId)) return;
  const text = `the key ${quote(keyId)} is set where the service is started: remove it there`;
  throw serviceError("FORBIDDEN", text);
}

function changeable(keys: KeyStore | undefined): KeyStore {
  if (keys?.isChangeable) return keys;
  const text =
    keys === undefined
      ? "the service requires no keys: create the first one with `redrive keys add`, and restart it"
      : "the service has no key file: its key is REDRIVE_API_KEY; only a SQLite store has a key file";
  throw serviceError("FORBIDDEN", text);
}

function isOperator(request: FastifyRequest): boolean {
  return tenantOf(request) === DEFAULT_TENANT;
}

function maySee(request: FastifyRequest, { tenantId }: KeyRecord): boolean {
  return isOperator(request) || tenantId === tenantOf(request);
}

function assertTenant(request: FastifyRequest, tenantId: string): void {
  if (!TENANT.test(tenantId)) {
    throw wrong(`tenantId must be 1 to 64 of A-Z a-z 0-9 . _ -, got ${quote(tenantId)}`);
  }
  if (isOperator(request) || tenantId === tenantOf(request)) return;
  const text = `only an admin of the tenant "${DEFAULT_TENANT}" may create keys of other tenants`;
  throw serviceError("FORBIDDEN", text);
}

function scopeOf(text: string): Scope {
  const scope = SCOPES.find((known) => known === text);
  if (scope !== undefined) return scope;
  throw wrong(`scopes must be some of ${SCOPES.join(", ")}; got ${quote(text)}`);
}

function wrong(message: string): Error {
  return serviceError("INVALID_ARGUMENT", message);
}

function viewOf(
  request: FastifyRequest,
  { keyId, name, tenantId, scopes, createdAt, expiresAt, limits = {} }: KeyRecord,
  keys: KeyStore | undefined,
): KeyView {
  return {
    ...{ keyId, name, tenantId, scopes: [...scopes], createdAt, expiresAt, limits },
    isOwn: callerOf(request).keyId === keyId,
    isRevocable: keys?.isRevocable(keyId) ?? false,
  };
}

// Session routes: sign a browser in with an API key, show who is signed in, and sign out.

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

const sessionTags = ["service"];
const open = { scope: "public", limit: "own" } as const;

export const addSessionRoutes: AddRoutes = (app, context) => {
  app.post(
    "/ui/session",
    {
      config: open,
      schema: {
        tags: sessionTags,
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
      schema: {
        tags: sessionTags,
        summary: "Show who is signed in",
        response: { 200: CallerView },
      },
    },
    async (request) => callerView(context, callerOf(request)),
  );
  app.delete(
    "/ui/session",
    { config: open, schema: { tags: sessionTags, summary: "Sign a browser out" } },
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
  if (session === undefined) return { ...callerView(context, caller), expiresAt: null };
  const maxAgeMs = session.expiresAt - clock.now();
  reply.header("set-cookie", sessionCookie(session.value, maxAgeMs, isSecure(request)));
  return { ...callerView(context, caller), expiresAt: session.expiresAt };
}

function callerView({ keys }: HttpContext, { tenantId, scopes }: Caller): CallerView {
  return { tenantId, scopes: [...scopes], requiresKey: keys !== undefined };
}

/** Only the browser knows whether a proxy in front of the service speaks https. */
function isSecure({ headers }: FastifyRequest): boolean {
  return headers.origin?.toLowerCase().startsWith("https:") ?? false;
}

// Alert routes: where alerts are posted, which fire now, and a test of the way there.

const alertConfig = { scope: "admin" } as const;

export const addAlertRoutes: AddRoutes = (app, context) => {
  app.get(
    "/alerts",
    {
      config: alertConfig,
      schema: { tags, summary: "Show the alerts", response: { 200: AlertsView } },
    },
    async (request) => {
      assertOperator(app, request);
      return await alertsView(context);
    },
  );
  app.post(
    "/alerts/test",
    {
      config: alertConfig,
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

const NO_OPTIONS = {
  url: null,
  destination: null,
  deadLetterRatio: null,
  minDeadLetters: null,
  windowMs: null,
  lateMs: null,
  repeatMs: null,
  runbookUrl: null,
};

async function alertsView({ redrive: { alerts } }: HttpContext): Promise<AlertsView> {
  if (alerts === undefined) return { ...NO_OPTIONS, firing: [] };
  const episodes = await alerts.firing();
  const firing = episodes.map(({ kind, since, tenantId, destination }) => ({
    ...{ alert: kind, sinceAt: since, tenantId, destination },
  }));
  const { options, destination } = alerts;
  return { ...options, url: maskQuery(options.url), destination, firing };
}
