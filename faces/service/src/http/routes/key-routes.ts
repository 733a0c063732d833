/**
 * Key routes: list, create and revoke API keys. A caller sees and changes the keys of its own tenant;
 * the operator, an admin of the tenant `default`, those of all tenants. A new key has the limits of
 * the key that created it, so that no key can get around its own.
 */
import { quote, systemBytes } from "@redrive/core";
import type { FastifyReply, FastifyRequest } from "fastify";
import { serviceError } from "../../model/errors.ts";
import { DEFAULT_TENANT } from "../../model/task.ts";
import {
  CreatedKey,
  KeyList,
  KeyParams,
  KeyToCreate,
  type KeyView,
} from "../../schemas/setting-schemas.ts";
import { createKey, type KeyRecord, type KeyStore, SCOPES, type Scope } from "../access/keys.ts";
import { type AddRoutes, callerOf, type HttpContext, tenantOf } from "../context/http-context.ts";

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
