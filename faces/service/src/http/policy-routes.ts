/** Policy routes: register, replace, read and remove policies. */
import { DocumentError, isObject, type PolicyDocument, presets } from "@redrive/core";
import type { FastifyReply, FastifyRequest } from "fastify";
import { serviceError } from "../model/errors.ts";
import type { PolicyRow } from "../model/store.ts";
import { parseStored, readPolicy } from "../model/stored-documents.ts";
import {
  PolicyList,
  PolicyParams,
  PolicyToStore,
  PolicyView,
  VersionQuery,
} from "../schemas/operation-schemas.ts";
import { type AddRoutes, type HttpContext, tenantOf } from "./http-context.ts";

const tags = ["policies"];
const read = { scope: "tasks:read" } as const;
const write = { scope: "admin" } as const;

export const addPolicyRoutes: AddRoutes = (app, context) => {
  app.post(
    "/retry-policies",
    {
      config: write,
      schema: {
        tags,
        summary: "Register a policy",
        description:
          "Returns 201, or 200 if the same document exists. A different document under the same id is a 409, so that a registration never changes a live policy by accident.",
        body: PolicyToStore,
        response: { 200: PolicyView, 201: PolicyView },
      },
    },
    (request, reply) => register(context, request, reply),
  );
  app.put<{ Params: PolicyParams }>(
    "/retry-policies/:policyId",
    {
      config: write,
      schema: {
        tags,
        summary: "Replace a policy with a new version",
        description: "Existing tasks keep their version.",
        params: PolicyParams,
        body: PolicyToStore,
        response: { 200: PolicyView },
      },
    },
    (request) => replace(context, request),
  );
  app.get<{ Params: PolicyParams; Querystring: VersionQuery }>(
    "/retry-policies/:policyId",
    {
      config: read,
      schema: {
        tags,
        summary: "Get a policy",
        params: PolicyParams,
        querystring: VersionQuery,
        response: { 200: PolicyView },
      },
    },
    (request) => find(context, tenantOf(request), request.params.policyId, request.query.version),
  );
  app.get(
    "/retry-policies",
    {
      config: read,
      schema: { tags, summary: "List policies and presets", response: { 200: PolicyList } },
    },
    (request) => list(context, tenantOf(request)),
  );
  app.delete<{ Params: PolicyParams }>(
    "/retry-policies/:policyId",
    {
      config: write,
      schema: {
        tags,
        summary: "Remove a policy that no task uses",
        params: PolicyParams,
        response: { 204: { type: "null" } },
      },
    },
    (request, reply) => remove(context, request, reply),
  );
};

async function register({ redrive }: HttpContext, request: FastifyRequest, reply: FastifyReply) {
  const tenantId = tenantOf(request);
  const document = documentIn(request);
  if (document.policyId === undefined) {
    throw wrong("policyId", "a registered policy must have a policyId, got none");
  }
  const standing = await redrive.policies.get(String(document.policyId), tenantId);
  const { policyId } = await redrive.policies.register(document, tenantId);
  const isNew = standing === null && !isPreset(policyId);
  reply.code(isNew ? 201 : 200).header("location", `/retry-policies/${policyId}`);
  return find({ redrive }, tenantId, policyId);
}

async function replace(
  { redrive }: HttpContext,
  request: FastifyRequest<{ Params: PolicyParams }>,
): Promise<PolicyView> {
  const { policyId } = request.params;
  const tenantId = tenantOf(request);
  const document = documentIn(request);
  if ((document.policyId ?? policyId) !== policyId) {
    throw wrong("policyId", `policyId must be ${JSON.stringify(policyId)} as in the path`);
  }
  await redrive.policies.replace({ ...document, policyId }, tenantId);
  return find({ redrive }, tenantId, policyId);
}

async function find(
  { redrive }: Pick<HttpContext, "redrive">,
  tenantId: string,
  policyId: string,
  version?: number,
): Promise<PolicyView> {
  const row = await redrive.policies.get(policyId, tenantId, version);
  if (row !== null) return viewPolicy(row);
  if (version === undefined && isPreset(policyId)) return viewPreset(policyId);
  if (version !== undefined) {
    // Throws if there is no version at all.
    await find({ redrive }, tenantId, policyId);
    throw missing(policyId, `has no version ${version}`);
  }
  throw redrive.policies.unknown("NOT_FOUND", tenantId, policyId);
}

/** Inline policies are omitted: callers do not know their names. */
async function list({ redrive }: HttpContext, tenantId: string): Promise<PolicyList> {
  const rows = (await redrive.policies.list(tenantId)).map(viewPolicy);
  const known = rows.filter(({ source }) => source !== "inline");
  const unused = Object.keys(presets).filter(
    (id) => !known.some(({ policyId }) => policyId === id),
  );
  return { policies: [...known, ...unused.map(viewPreset)] };
}

async function remove(
  context: HttpContext,
  request: FastifyRequest<{ Params: PolicyParams }>,
  reply: FastifyReply,
): Promise<void> {
  const { policyId } = request.params;
  const tenantId = tenantOf(request);
  if ((await context.redrive.policies.get(policyId, tenantId)) === null) {
    if (isPreset(policyId)) throw missing(policyId, "is a preset, which cannot be removed");
    throw context.redrive.policies.unknown("NOT_FOUND", tenantId, policyId);
  }
  if (!(await context.redrive.policies.remove(policyId, tenantId))) {
    const text = `policy ${JSON.stringify(policyId)} is used by tasks that have not ended`;
    throw serviceError("POLICY_IN_USE", text);
  }
  reply.code(204);
}

function viewPolicy({ policyId, version, createdAt, document }: PolicyRow): PolicyView {
  const reading = readPolicy(document);
  const view = { policyId, version, source: sourceOf(policyId), createdAt };
  const known = { ...view, document: parseStored(document) };
  return reading.kind === "read" ? known : { ...known, unreadable: reading.reason };
}

function viewPreset(policyId: string): PolicyView {
  const document = presets[policyId as keyof typeof presets];
  return { policyId, version: 0, source: "preset", createdAt: null, document };
}

function sourceOf(policyId: string): PolicyView["source"] {
  if (policyId.startsWith("inline.")) return "inline";
  return isPreset(policyId) ? "preset" : "registered";
}

function isPreset(policyId: string): boolean {
  return Object.hasOwn(presets, policyId);
}

function documentIn({ body }: FastifyRequest): PolicyDocument {
  if (isObject(body)) return body as PolicyDocument;
  throw wrong("", "the policy must be an object");
}

function missing(policyId: string, what: string): Error {
  return serviceError("NOT_FOUND", `policy ${JSON.stringify(policyId)} ${what}`);
}

function wrong(field: string, message: string): Error {
  return new DocumentError("INVALID_POLICY", [{ field, value: undefined, message }]);
}
