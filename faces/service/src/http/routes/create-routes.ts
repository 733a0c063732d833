/**
 * Create routes: create one task or many. A 2xx is sent only after the store's fsync; a preferred
 * wait begins after that.
 */
import { Readable } from "node:stream";
import { DocumentError, isObject } from "@redrive/core";
import type { FastifyInstance, FastifyReply, FastifyRequest, preParsingHookHandler } from "fastify";
import { assertKeyTargets } from "../../intake/targets/key-targets.ts";
import type { TaskInput } from "../../intake/task-input.ts";
import type { Accepted } from "../../intake/task-intake.ts";
import { assertNoLoop } from "../../model/loop-detection.ts";
import { isEnded } from "../../model/task.ts";
import { BatchResult } from "../../schemas/batch-schemas.ts";
import { TaskReceipt, TaskToCreate, TaskView } from "../../schemas/task-schemas.ts";
import type { Caller } from "../access/access.ts";
import {
  type AddRoutes,
  callerOf,
  type HttpContext,
  tenantOf,
  visibilityFor,
} from "../context/http-context.ts";
import { handedOver } from "../direct/handed-over.ts";
import {
  asTaskError,
  preferredWaitSeconds,
  readTaskInput,
  withTrace,
} from "../request/create-request.ts";
import { arrayElements, ndjsonLines, parseTaskJson } from "../request/json-body.ts";
import { logServerError } from "../response/error-response.ts";
import { problemOf } from "../response/problem.ts";
import { viewTask } from "../response/views.ts";

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
    scope.post("/retry-tasks", { schema: createOne, config, preParsing }, (request, reply) =>
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

/** A body that has been read cannot be read again. */
const preParsing: preParsingHookHandler = (request, _reply, payload, done) => {
  const { body } = handedOver(request.raw) ?? {};
  done(null, body === undefined ? payload : Readable.from([body], { objectMode: false }));
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
  const { accepted: stored, error } = handedOver(request.raw) ?? {};
  if (error !== undefined) throw asTaskError(error);
  if (stored !== undefined) return sendAccepted(context, request, reply, stored);
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
export async function sendAccepted(
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
