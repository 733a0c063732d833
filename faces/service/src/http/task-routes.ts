/** Task routes: read tasks and their attempts, cancel a task, and retry it now. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { serviceError, taskNotFound } from "../model/errors.ts";
import type { RetryTask } from "../model/task.ts";
import {
  AttemptList,
  CancelView,
  Include,
  ListQuery,
  PageQuery,
  TaskList,
  TaskParams,
  TaskReceipt,
  TaskView,
} from "../schemas/task-schemas.ts";
import {
  type AddRoutes,
  callerOf,
  type HttpContext,
  signalOf,
  tenantOf,
  visibilityFor,
} from "./http-context.ts";
import { type CursorScope, readCursor, toTaskFilter, writeCursor } from "./list-query.ts";
import { viewAttempt, viewTask } from "./views.ts";

const tags = ["tasks"];

/** The description of every filtered list. */
export const SHORT_PAGES =
  "A page may be short or empty although more tasks match, because a request examines a limited number of rows. Only a null cursor ends the list.";

const read = { scope: "tasks:read" } as const;
const cancel = { scope: "tasks:cancel" } as const;

export const addTaskRoutes: AddRoutes = (app, context) => {
  app.get<{ Params: TaskParams; Querystring: Include }>(
    "/retry-tasks/:taskId",
    {
      config: read,
      schema: {
        tags,
        summary: "Get a task",
        params: TaskParams,
        querystring: Include,
        response: { 200: TaskView },
      },
    },
    (request) => getTask(context, request),
  );
  app.get<{ Querystring: ListQuery }>(
    "/retry-tasks",
    {
      config: read,
      schema: {
        tags,
        summary: "List tasks, newest first",
        description: SHORT_PAGES,
        querystring: ListQuery,
        response: { 200: TaskList },
      },
    },
    (request, reply) => listTasks(context, request, request.query, signalOf(request, reply)),
  );
  app.delete<{ Params: TaskParams }>(
    "/retry-tasks/:taskId",
    {
      config: cancel,
      schema: {
        tags,
        summary: "Cancel a task",
        description:
          "200: the task is CANCELLED. 202: an attempt is in progress; the task is CANCELLED unless that attempt succeeds.",
        params: TaskParams,
        response: { 200: CancelView, 202: CancelView },
      },
    },
    (request, reply) => cancelTask(context, request, reply),
  );
  app.post<{ Params: TaskParams }>(
    "/retry-tasks/:taskId/retry",
    {
      config: cancel,
      schema: {
        tags,
        summary: "Retry a waiting task now",
        description: "Guards still apply. To retry a dead letter, use POST /redrives.",
        params: TaskParams,
        response: { 202: TaskReceipt },
      },
    },
    (request, reply) => retryNow(context, request, reply),
  );
  app.get<{ Params: TaskParams; Querystring: PageQuery }>(
    "/retry-tasks/:taskId/attempts",
    {
      config: read,
      schema: {
        tags,
        summary: "List the attempts of a task, oldest first",
        params: TaskParams,
        querystring: PageQuery,
        response: { 200: AttemptList },
      },
    },
    (request, reply) => listAttempts(context, request, signalOf(request, reply)),
  );
};

type TaskRequest = FastifyRequest<{ Params: TaskParams }>;

export async function taskOf({ redrive }: HttpContext, request: TaskRequest): Promise<RetryTask> {
  const { taskId } = request.params;
  const task = await redrive.get(taskId, tenantOf(request));
  if (task !== null) return task;
  throw taskNotFound(taskId);
}

async function getTask(
  context: HttpContext,
  request: FastifyRequest<{ Params: TaskParams; Querystring: Include }>,
): Promise<TaskView> {
  const include = new Set(request.query.include?.split(","));
  if (include.has("body")) assertMayReadPayload(request);
  const task = await taskOf(context, request);
  const view = viewTask(task, visibilityFor(request, include.has("body")));
  if (!include.has("explain")) return view;
  const { text, wait } = await context.redrive.explainWait(task);
  return { ...view, explain: text, wait };
}

export function assertMayReadPayload(request: FastifyRequest): void {
  const { scopes } = callerOf(request);
  if (scopes.has("payload:read") || scopes.has("admin")) return;
  throw serviceError("FORBIDDEN", "this API key lacks the scope payload:read");
}

/** Also lists dead letters, which are tasks. */
export async function listTasks(
  context: HttpContext,
  request: FastifyRequest,
  query: ListQuery,
  signal: AbortSignal,
): Promise<TaskList> {
  const { limit = 50, cursor } = query;
  const scope: CursorScope = { tenantId: tenantOf(request), list: "tasks" };
  const position = cursor === undefined ? {} : { cursor: readCursor(scope, cursor) };
  const page = { limit, signal, ...position };
  const found = await context.redrive.list(toTaskFilter(query), page, scope.tenantId);
  const { tasks, cursor: next } = found;
  const shown = visibilityFor(request, false);
  return { tasks: tasks.map((task) => viewTask(task, shown)), cursor: writeCursor(scope, next) };
}

async function cancelTask(
  { redrive }: HttpContext,
  request: TaskRequest,
  reply: FastifyReply,
): Promise<CancelView> {
  const { taskId } = request.params;
  const cancelled = await redrive.cancel(taskId, tenantOf(request));
  reply.code(cancelled.status === "CANCELLED" ? 200 : 202);
  return { taskId, ...cancelled };
}

async function retryNow(
  { redrive }: HttpContext,
  request: TaskRequest,
  reply: FastifyReply,
): Promise<TaskReceipt> {
  const { taskId } = request.params;
  await redrive.retryNow(taskId, tenantOf(request));
  reply.code(202);
  return { taskId, status: "PENDING" };
}

async function listAttempts(
  context: HttpContext,
  request: FastifyRequest<{ Params: TaskParams; Querystring: PageQuery }>,
  signal: AbortSignal,
): Promise<AttemptList> {
  const { limit = 50, cursor, include } = request.query;
  if (include === "body") assertMayReadPayload(request);
  const { taskId, tenantId } = await taskOf(context, request);
  const scope: CursorScope = { tenantId, list: `attempts of ${taskId}` };
  const position = cursor === undefined ? {} : { cursor: readCursor(scope, cursor) };
  const page = { limit, signal, ...position };
  const found = await context.redrive.attempts(taskId, page, tenantId);
  const shown = visibilityFor(request, include === "body");
  return {
    attempts: found.attempts.map((attempt) => viewAttempt(attempt, shown)),
    cursor: writeCursor(scope, found.cursor),
  };
}
