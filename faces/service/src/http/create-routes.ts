/**
 * Create routes: create one task or many, store bodies of any size, and forward requests as tasks.
 * A 2xx is sent only after the store's fsync; a preferred wait begins after that.
 */

import type { IncomingHttpHeaders } from "node:http";
import {
  DocumentError,
  type FieldProblem,
  isObject,
  nearestName,
  parseKeyHeader,
} from "@redrive/core";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { BlobError, parseBodyRef } from "../bodies/blob-store.ts";
import type { BodySource } from "../bodies/bodies.ts";
import { isTraceparent } from "../deliver/deliverer.ts";
import type { PlainTaskInput, TaskInput } from "../intake/task-input.ts";
import { type Accepted, assertKeyTargets } from "../intake/task-intake.ts";
import { serviceError } from "../model/errors.ts";
import { assertNoLoop, type Headers, isEnded, type RetryTask } from "../model/task.ts";
import {
  BatchResult,
  TaskParams,
  TaskReceipt,
  TaskToCreate,
  TaskView,
  UploadedBody,
} from "../schemas/task-schemas.ts";
import type { Caller } from "./access.ts";
import {
  type AddRoutes,
  callerOf,
  type HttpContext,
  tenantOf,
  visibilityFor,
} from "./http-context.ts";
import { arrayElements, ndjsonLines, parseTaskJson } from "./json-body.ts";
import { logServerError, problemOf } from "./problem.ts";
import { assertMayReadPayload, taskOf } from "./task-routes.ts";
import { viewTask } from "./views.ts";

const MAX_IN_BATCH = 1000;
const MAX_BATCH = 16 * 1024 * 1024;

const createOne = {
  tags: ["tasks"],
  summary: "Create a task",
  description:
    "The response is sent once the task is durable. A repeated key with the same payload returns 200 and the same task. " +
    "`Prefer: wait=n` (at most 25 s) then waits for its end.",
  body: TaskToCreate,
  response: { 200: TaskView, 202: TaskReceipt },
};

const createMany = {
  tags: ["tasks"],
  summary: "Create up to 1000 tasks",
  description: "A JSON array or NDJSON, at most 16 MiB. Each task is checked separately.",
  body: { type: "array", items: TaskToCreate, maxItems: MAX_IN_BATCH },
  response: { 200: BatchResult },
};

/** A caller may prefer a long wait, and each task of a batch has its own result. */
const config = { scope: "tasks:create", limit: "own" } as const;

export const addCreateRoutes: AddRoutes = (app, context) => {
  app.register(async (scope) => {
    scope.removeContentTypeParser("application/json");
    addParser(scope, "application/json", parseTaskJson);
    scope.post("/retry-tasks", { schema: createOne, config }, (request, reply) =>
      createTask(context, request, reply),
    );
  });
  app.register(async (scope) => {
    scope.removeContentTypeParser("application/json");
    addParser(scope, "application/json", arrayElements);
    addParser(scope, "application/x-ndjson", ndjsonLines);
    scope.post<{ Body: readonly Buffer[] }>(
      "/retry-tasks/batch",
      { schema: createMany, bodyLimit: MAX_BATCH, config },
      (request, reply) => createTasks(context, request, reply),
    );
  });
};

function addParser(scope: FastifyInstance, type: string, parse: (body: Buffer) => unknown): void {
  scope.addContentTypeParser(type, { parseAs: "buffer" }, (_request, body, done) => {
    try {
      done(null, parse(body as Buffer));
    } catch (error) {
      done(error as Error, undefined);
    }
  });
}

async function createTask(context: HttpContext, request: FastifyRequest, reply: FastifyReply) {
  const { headers } = request;
  const caller = callerOf(request);
  const hops = assertNoLoop(headers);
  context.backlog.check(caller.tenantId, caller.limits.maxWaiting);
  const given = readTaskInput(request.body, headers["idempotency-key"]);
  const input = withTrace(given, headers["traceparent"]);
  const accepted = await enqueue(context, input, caller, hops);
  return sendAccepted(context, request, reply, accepted);
}

/** The response to a create, after a preferred wait. */
async function sendAccepted(
  context: HttpContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { taskId, replayed }: Accepted,
) {
  reply.header("location", `/retry-tasks/${taskId}`);
  const waitSeconds = preferredWaitSeconds(request.headers["prefer"]);
  if (waitSeconds === 0 && !replayed) return reply.code(202).send({ taskId, status: "PENDING" });
  return sendStoredTask(context, request, reply, { taskId, replayed, waitSeconds });
}

const READ_FAILED = "A stored task could not be read";

interface StoredTask extends Accepted {
  readonly waitSeconds: number;
}

/** Reads the task before responding: it existed before, or the caller waits for its end. */
async function sendStoredTask(
  { watch, metrics }: HttpContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { taskId, replayed, waitSeconds }: StoredTask,
) {
  if (replayed) {
    metrics.duplicates.inc();
    reply.header("idempotent-replayed", "true");
  }
  if (waitSeconds > 0) reply.header("preference-applied", `wait=${waitSeconds}`);
  const { task, error } = await watch.waitForEnd(taskId, tenantOf(request), waitSeconds * 1000);
  // The task is stored even if reading it failed, so the response must not be a 503.
  if (error !== undefined) logServerError(error, READ_FAILED, request, reply);
  if (task === undefined && !replayed) return reply.code(202).send({ taskId, status: "PENDING" });
  // A key outlives a discarded task; only the id is known then.
  if (task === null || task === undefined)
    return reply.code(200).serializer(JSON.stringify).send({ taskId });
  if (replayed || isEnded(task.status)) return viewTask(task, visibilityFor(request, false));
  return reply.code(202).send({ taskId, status: task.status });
}

async function enqueue(
  context: HttpContext,
  input: TaskInput,
  caller: Caller,
  hops: number,
): Promise<Accepted> {
  const { tenantId, limits } = caller;
  if (isObject(input)) assertKeyTargets(limits.targets, [input.targetUrl, input.callbackUrl]);
  try {
    return await context.limit.guard(context.redrive.enqueue(input, tenantId, hops));
  } catch (error) {
    throw asTaskError(error);
  }
}

async function createTasks(
  context: HttpContext,
  request: FastifyRequest<{ Body: readonly Buffer[] }>,
  reply: FastifyReply,
): Promise<BatchResult> {
  const { body: items } = request;
  const caller = callerOf(request);
  const hops = assertNoLoop(request.headers);
  const count = items?.length ?? 0;
  if (count === 0 || count > MAX_IN_BATCH) throw invalidBatchSize(count);
  if (request.headers["idempotency-key"] !== undefined) throw keyOnBatch();
  context.backlog.check(caller.tenantId, caller.limits.maxWaiting);
  // A store failure affects all tasks of the batch, so it is logged once.
  const loggedTitles = new Set<string>();
  const logOnce = (error: unknown, title: string) => {
    if (!loggedTitles.has(title)) logServerError(error, title, request, reply);
    loggedTitles.add(title);
  };
  const { traceparent } = request.headers;
  const enqueueItem = (input: TaskInput) =>
    enqueue(context, withTrace(input, traceparent), caller, hops);
  const results = await Promise.all(
    items.map((item) => createBatchItem(context, item, enqueueItem, logOnce)),
  );
  const accepted = results.filter(({ taskId }) => taskId !== undefined).length;
  return { accepted, refused: results.length - accepted, results };
}

async function createBatchItem(
  context: HttpContext,
  item: Buffer,
  enqueueItem: (input: TaskInput) => Promise<Accepted>,
  logOnce: (error: unknown, title: string) => void,
): Promise<BatchResult["results"][number]> {
  try {
    const input = readTaskInput(parseTaskJson(item), undefined);
    const { taskId, replayed } = await enqueueItem(input);
    if (replayed) context.metrics.duplicates.inc();
    return { status: replayed ? 200 : 202, taskId, replayed };
  } catch (error) {
    const { status, title, code, detail, errors } = problemOf(error);
    if (status >= 500) logOnce(error, title);
    return { status, code, detail, ...(errors && { errors: [...errors] }) };
  }
}

/** One key cannot stand for several tasks. To ignore it would promise what is not done. */
function keyOnBatch(): Error {
  const message =
    "the header Idempotency-Key does not apply to a batch; give each task its own idempotencyKey";
  const problem = { field: "idempotencyKey", value: undefined, message };
  return new DocumentError("INVALID_ARGUMENT", [problem]);
}

function invalidBatchSize(count: number): Error {
  const message = `a batch must have 1 to ${MAX_IN_BATCH} tasks, got ${count}`;
  return new DocumentError("INVALID_ARGUMENT", [{ field: "", value: undefined, message }]);
}

// Body routes: requests with a body of any size and type. A body is streamed into the blob store
// with bounded memory, and is durable before the response. One route streams a stored body back.

const taskTags = ["tasks"];

const FORWARD_TEXT =
  "Send the request as the target should get it, with these headers: `Redrive-Target` (the URL; required), `Redrive-Policy`, `Redrive-Method` (default: POST), `Redrive-Destination`, `Redrive-Idempotent`, `Redrive-Scheduled-At`, `Redrive-Deadline-At`, `Redrive-Callback-Url`, `Redrive-Target-Authorization` (sent as Authorization) and `Idempotency-Key`. " +
  "Body and other headers are forwarded unchanged, except headers of the connection, cookies and the Authorization for this service. The response is that of POST /retry-tasks.";

const forward = {
  tags: taskTags,
  summary: "Create a task from a request with a body of any size and type",
  description: FORWARD_TEXT,
  response: { 200: TaskView, 202: TaskReceipt },
};

const upload = {
  tags: taskTags,
  summary: "Store a body for tasks to come",
  description:
    "Any content type. Create tasks with its `bodyRef`. A body that no task uses is removed after six hours.",
  response: { 201: UploadedBody },
};

const streamConfig = { scope: "tasks:create", limit: "own", upload: true } as const;

export const addBodyRoutes: AddRoutes = (app, context) => {
  app.register(async (scope) => {
    acceptStreams(scope);
    scope.post("/forward", { schema: forward, config: streamConfig }, (request, reply) =>
      forwardRequest(context, request, reply),
    );
    scope.post("/bodies", { schema: upload, config: streamConfig }, (request, reply) =>
      uploadBody(context, request, reply),
    );
  });
  app.get<{ Params: TaskParams }>(
    "/retry-tasks/:taskId/body",
    {
      config: { scope: "payload:read", limit: "own" },
      exposeHeadRoute: false,
      schema: {
        tags: taskTags,
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

// Create request: reads a create request: the idempotency key and the trace from the headers, the
// field names of an inline policy's errors, and the preferred wait.

const MAX_WAIT_SECONDS = 25;

/** The input with the header's key. The intake checks everything else. */
export function readTaskInput(body: unknown, header: unknown): TaskInput {
  if (isObject(body) && Array.isArray(body["headers"])) throw headersList();
  return (isObject(body) ? withKey(body, header) : body) as TaskInput;
}

/**
 * The task continues the trace of the request that creates it, unless the task has a trace of its own.
 * An invalid `traceparent` is ignored, as the standard says.
 */
export function withTrace(input: TaskInput, traceparent: unknown): TaskInput {
  if (typeof traceparent !== "string" || !isTraceparent(traceparent)) return input;
  if (!isObject(input)) return input;
  const { headers = {} } = input as PlainTaskInput;
  // A wrong value is refused later, with a better message.
  if (!isObject(headers)) return input;
  const isGiven = Object.keys(headers).some((name) => name.toLowerCase() === "traceparent");
  return isGiven ? input : { ...input, headers: { ...headers, traceparent } };
}

function withKey(body: Readonly<Record<string, unknown>>, header: unknown): unknown {
  const { idempotencyKey } = body;
  const isText = typeof idempotencyKey === "string";
  // A header does not repair an invalid field.
  if (idempotencyKey !== undefined && !isText) return body;
  const own = isText ? plainKey(idempotencyKey) : undefined;
  const given = typeof header === "string" ? plainKey(header) : undefined;
  if (own !== undefined && given !== undefined && own !== given) {
    throw wrongKey("the header Idempotency-Key and the field idempotencyKey differ");
  }
  const key = own ?? given;
  return key === undefined ? body : { ...body, idempotencyKey: key };
}

/** `"abc"` means `abc`. The intake refuses what is neither. */
function plainKey(text: string): string {
  return parseKeyHeader(text)?.key ?? text.trim();
}

/** The intake also accepts pairs, for programs. In JSON there is one form, that of the schema. */
function headersList(): Error {
  const message = "headers must be an object of strings, got a list";
  return new DocumentError("INVALID_ARGUMENT", [{ field: "headers", value: undefined, message }]);
}

function wrongKey(message: string): Error {
  return new DocumentError("INVALID_ARGUMENT", [
    { field: "idempotencyKey", value: undefined, message },
  ]);
}

/** The fields of an inline policy are reported as the task's `policy.*`. */
export function asTaskError(error: unknown): unknown {
  if (!(error instanceof DocumentError) || error.code !== "INVALID_POLICY") return error;
  const problems = error.problems.map((problem) => ({
    ...problem,
    field: problem.field === "" ? "policy" : `policy.${problem.field}`,
  }));
  return new DocumentError("INVALID_POLICY", problems);
}

/** Seconds of `Prefer: wait=n` (RFC 7240), at most 25; 0 without one. */
export function preferredWaitSeconds(prefer: string | string[] | undefined): number {
  if (prefer === undefined) return 0;
  const [, seconds = "0"] = /(?:^|[,;\s])wait\s*=\s*"?(\d{1,9})/i.exec(String(prefer)) ?? [];
  return Math.min(MAX_WAIT_SECONDS, Number(seconds));
}

// Forward request: reads a request that is to be forwarded unchanged. Headers that begin with
// `Redrive-` say where and how; the others belong to the request. Those that belong to the
// connection, or to this service, are not forwarded.

/** The field of the task that each header sets, and how its text is read. */
const FIELDS: Readonly<Record<string, readonly [field: keyof TaskInput, read: Read]>> = {
  "redrive-target": ["targetUrl", String],
  "redrive-policy": ["policyId", String],
  "redrive-method": ["method", String],
  "redrive-destination": ["destination", String],
  "redrive-idempotent": ["idempotent", flag],
  "redrive-scheduled-at": ["scheduledAt", instant],
  "redrive-deadline-at": ["deadlineAt", instant],
  "redrive-callback-url": ["callbackUrl", String],
};

type Read = (text: string) => unknown;

/** The credentials for the target: `Authorization` itself is the key for this service. */
const TARGET_AUTHORIZATION = "redrive-target-authorization";

/** Sent by other Redrive services and libraries. They describe the request to us. */
const FROM_REDRIVE = new Set([
  "redrive-hop",
  "redrive-attempt",
  "redrive-task-id",
  "redrive-remaining-ms",
]);

/** Of the connection (RFC 9110 7.6.1), of this service, or of a browser's session with it. */
const OWN = new Set([
  "accept-encoding",
  "authorization",
  "connection",
  "content-length",
  "cookie",
  "expect",
  "host",
  "idempotency-key",
  "keep-alive",
  "origin",
  "prefer",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

const OWN_PREFIX = /^(proxy|sec|redrive)-/;

/** The task without its body. Throws `INVALID_ARGUMENT` for an unknown `Redrive-` header. */
export function readForwardInput(received: IncomingHttpHeaders): TaskInput {
  const input: Record<string, unknown> = {};
  const headers: Record<string, string> = {};
  const connection = namesIn(received.connection);
  for (const [name, given] of Object.entries(received)) {
    const value = Array.isArray(given) ? given.join(", ") : (given ?? "");
    const known = FIELDS[name];
    if (known !== undefined) input[known[0]] = known[1](value);
    else if (name === TARGET_AUTHORIZATION) headers["authorization"] = value;
    else if (isForwarded(name) && !connection.has(name)) headers[name] = value;
  }
  const problems = Object.keys(received).flatMap((name) => unknownHeader(name) ?? []);
  if (input["targetUrl"] === undefined) problems.push(NO_TARGET);
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  return readTaskInput({ ...input, headers: headers as Headers }, received["idempotency-key"]);
}

function isForwarded(name: string): boolean {
  return !OWN.has(name) && !OWN_PREFIX.test(name);
}

/** `Connection` names more headers that belong to the connection. */
function namesIn(connection: string | undefined): ReadonlySet<string> {
  return new Set((connection ?? "").split(",").map((name) => name.trim().toLowerCase()));
}

const NO_TARGET: FieldProblem = {
  field: "targetUrl",
  value: undefined,
  message: "the header Redrive-Target must be the URL to which the request is forwarded",
};

/** A misspelled header must not be ignored: it may be the one that names the policy. */
function unknownHeader(name: string): FieldProblem | undefined {
  const isKnown = name in FIELDS || name === TARGET_AUTHORIZATION || FROM_REDRIVE.has(name);
  if (isKnown || !name.startsWith("redrive-")) return undefined;
  const near = nearestName(name, [...Object.keys(FIELDS), TARGET_AUTHORIZATION]);
  const hint = near === undefined ? "" : `, did you mean ${near}?`;
  return { field: name, value: undefined, message: `unknown header ${name}${hint}` };
}

/** Anything else is reported by the intake. */
function flag(text: string): unknown {
  if (text === "true") return true;
  return text === "false" ? false : text;
}

function instant(text: string): unknown {
  return /^\d{1,16}$/.test(text) ? Number(text) : text;
}
