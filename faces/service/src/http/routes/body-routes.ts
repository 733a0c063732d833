/**
 * Body routes: requests with a body of any size and type. A body is streamed into the blob store with
 * bounded memory, and is durable before the response. One route streams a stored body back.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { BlobError } from "../../bodies/blob-store.ts";
import type { BodySource } from "../../bodies/bodies.ts";
import { parseBodyRef } from "../../bodies/body-ref.ts";
import { assertKeyTargets } from "../../intake/targets/key-targets.ts";
import type { TaskInput } from "../../intake/task-input.ts";
import type { Accepted } from "../../intake/task-intake.ts";
import { serviceError } from "../../model/errors.ts";
import { assertNoLoop } from "../../model/loop-detection.ts";
import type { RetryTask } from "../../model/task.ts";
import { UploadedBody } from "../../schemas/body-schemas.ts";
import { TaskParams, TaskReceipt, TaskView } from "../../schemas/task-schemas.ts";
import { type AddRoutes, callerOf, type HttpContext, tenantOf } from "../context/http-context.ts";
import { readForwardInput } from "../request/forward-request.ts";
import { sendAccepted } from "./create-routes.ts";
import { assertMayReadPayload, taskOf } from "./task-routes.ts";

const tags = ["tasks"];

const FORWARD_TEXT =
  "Send the request as the target should get it, with these headers: `Redrive-Target` (the URL; required), `Redrive-Policy`, `Redrive-Method` (default: POST), `Redrive-Destination`, `Redrive-Idempotent`, `Redrive-Scheduled-At`, `Redrive-Deadline-At`, `Redrive-Callback-Url`, `Redrive-Target-Authorization` (sent as Authorization) and `Idempotency-Key`. " +
  "Body and other headers are forwarded unchanged, except headers of the connection, cookies and the Authorization for this service. The response is that of POST /retry-tasks.";

const forward = {
  tags,
  summary: "Create a task from a request with a body of any size and type",
  description: FORWARD_TEXT,
  response: { 200: TaskView, 202: TaskReceipt },
};

const upload = {
  tags,
  summary: "Store a body for tasks to come",
  description:
    "Any content type. Create tasks with its `bodyRef`. A body that no task uses is removed after six hours.",
  response: { 201: UploadedBody },
};

const config = { scope: "tasks:create", limit: "own", upload: true } as const;

export const addBodyRoutes: AddRoutes = (app, context) => {
  app.register(async (scope) => {
    acceptStreams(scope);
    scope.post("/forward", { schema: forward, config }, (request, reply) =>
      forwardRequest(context, request, reply),
    );
    scope.post("/bodies", { schema: upload, config }, (request, reply) =>
      uploadBody(context, request, reply),
    );
  });
  app.get<{ Params: TaskParams }>(
    "/retry-tasks/:taskId/body",
    {
      config: { scope: "payload:read", limit: "own" },
      exposeHeadRoute: false,
      schema: {
        tags,
        summary: "Get the body of a task",
        description:
          "The bytes as they are sent to the target. A body that broke off is not valid.",
        params: TaskParams,
      },
    },
    (request, reply) => sendBody(context, request, reply),
  );
};

/** The body stays a stream: its route reads it. */
function acceptStreams(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser("*", (_request, payload, done) => done(null, payload));
}

async function forwardRequest(context: HttpContext, request: FastifyRequest, reply: FastifyReply) {
  const { redrive, limit } = context;
  const { tenantId, limits } = callerOf(request);
  const hops = assertNoLoop(request.headers);
  context.backlog.check(tenantId, limits.maxWaiting);
  const input = readForwardInput(request.headers);
  assertKeyTargets(limits.targets, [input.targetUrl, input.callbackUrl]);
  const isEmpty = lengthOf(request) === 0 && request.headers["transfer-encoding"] === undefined;
  const checked = isEmpty ? input : { ...input, body: request.raw };
  await limit.guard(redrive.bodies.checkInput(checked, tenantId));
  const accepted = await (isEmpty
    ? limit.guard(redrive.enqueue(input, tenantId, hops))
    : enqueueArriving(context, request, reply, input, hops));
  return sendAccepted(context, request, reply, accepted);
}

/** While a request with a key arrives, another one with the same key has no answer. */
async function enqueueArriving(
  { redrive, limit, arriving }: HttpContext,
  request: FastifyRequest,
  reply: FastifyReply,
  input: TaskInput,
  hops: number,
): Promise<Accepted> {
  const tenantId = tenantOf(request);
  const { idempotencyKey: key } = input;
  const name = key === undefined ? undefined : `${tenantId}\n${key}`;
  if (name !== undefined && arriving.has(name)) {
    reply.header("retry-after", "1");
    const text = `a request with the key ${JSON.stringify(key)} is still arriving`;
    throw serviceError("UPLOAD_IN_PROGRESS", text);
  }
  if (name !== undefined) arriving.add(name);
  try {
    const stored = await receive(request, (source, signal) => {
      redrive.bodies.assertFits(lengthOf(request));
      return redrive.bodies.store(source, tenantId, signal);
    });
    return await limit.guard(redrive.bodies.enqueue(input, stored, tenantId, hops));
  } finally {
    if (name !== undefined) arriving.delete(name);
  }
}

async function uploadBody(
  { redrive }: HttpContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<UploadedBody> {
  const text = await receive(request, (source, signal) => {
    redrive.bodies.assertFits(lengthOf(request));
    return redrive.bodies.upload(source, tenantOf(request), signal);
  });
  const { length = 0, sha256 = "" } = parseBodyRef(text) ?? {};
  reply.code(201);
  return { bodyRef: text, length, sha256 };
}

/** 0 also if the length is not known: then the body is chunked, and its end is its length. */
function lengthOf({ headers }: FastifyRequest): number {
  return Number(headers["content-length"] ?? 0);
}

/** Ends the storing of a body whose caller is gone. */
async function receive<T>(
  { raw }: FastifyRequest,
  store: (source: BodySource, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  // The connection stays open when the body is not read to its end, so that the caller gets an answer.
  const source = { [Symbol.asyncIterator]: () => raw.iterator({ destroyOnReturn: false }) };
  const abort = new AbortController();
  const onClose = () => {
    if (!raw.complete) abort.abort(brokenOff());
  };
  raw.once("close", onClose);
  try {
    return await store(source, abort.signal);
  } catch (error) {
    throw raw.destroyed && !raw.complete ? brokenOff() : error;
  } finally {
    raw.removeListener("close", onClose);
  }
}

function brokenOff(): Error {
  return serviceError("INVALID_REQUEST", "the request broke off before its body was complete");
}

async function sendBody(
  context: HttpContext,
  request: FastifyRequest<{ Params: TaskParams }>,
  reply: FastifyReply,
) {
  assertMayReadPayload(request);
  const task = await context.limit.guard(taskOf(context, request));
  reply.header("content-type", "application/octet-stream");
  reply.header("content-disposition", "attachment");
  const length = parseBodyRef(task.bodyRef ?? "")?.length ?? task.body?.length ?? 0;
  reply.header("content-length", length);
  if (task.bodyRef === null) return reply.send(Buffer.from(task.body ?? []));
  return reply.send(await openBody(context, task));
}

async function openBody({ redrive }: HttpContext, task: RetryTask) {
  try {
    return await redrive.bodies.open(task);
  } catch (error) {
    if (!(error instanceof BlobError)) throw error;
    const isGone = error.fault === "missing" || error.fault === "corrupt";
    const text = `the body of task ${task.taskId} cannot be read`;
    throw serviceError(isGone ? "NOT_FOUND" : "BODY_STORE_UNAVAILABLE", text, error);
  }
}
