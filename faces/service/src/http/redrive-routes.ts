/**
 * Redrive routes: list and discard dead letters, start redrives of them, follow their progress,
 * pause, resume and cancel them.
 */
import { DocumentError } from "@redrive/core";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { serviceError, taskNotFound } from "../model/errors.ts";
import type { TaskFilter, TaskPage } from "../model/task-query.ts";
import type { RedriveJob } from "../operations/redrive-job.ts";
import { groupDeadLetters } from "../operations/selection.ts";
import {
  DeadLetterGroupList,
  DeadLetterQuery,
  Discarded,
  RedriveList,
  RedriveParams,
  RedriveToStart,
  RedriveView,
} from "../schemas/operation-schemas.ts";
import { DeadFilterFields, TaskList } from "../schemas/task-schemas.ts";
import { type AddRoutes, callerOf, type HttpContext, signalOf, tenantOf } from "./http-context.ts";
import { toTaskFilter } from "./list-query.ts";
import { listTasks, SHORT_PAGES } from "./task-routes.ts";

const tags = ["dead letters"];
const read = { scope: "tasks:read" } as const;
const redriving = { scope: "dlq:redrive" } as const;

export const addRedriveRoutes: AddRoutes = (app, context) => {
  app.post<{ Body: RedriveToStart }>(
    "/redrives",
    {
      // Counting many dead letters takes time.
      config: { ...redriving, limit: "own" },
      schema: {
        tags,
        summary: "Redrive dead letters at a given rate",
        description:
          "Creates a new task for each dead letter, with the same idempotency key. Each dead letter is redriven once. The set is frozen at the start. The canary goes first: if more than a fifth of it fails, or a circuit opens, the redrive pauses. The redrive survives a restart. A dead letter that cannot be redriven is skipped, and `skips` says why.",
        body: RedriveToStart,
        response: { 200: RedriveView, 202: RedriveView },
      },
    },
    (request, reply) => startRedrive(context, request, reply),
  );
  app.get(
    "/redrives",
    {
      config: read,
      schema: { tags, summary: "List redrives, newest first", response: { 200: RedriveList } },
    },
    async (request) => {
      const jobs = await context.redrive.jobs.list(tenantOf(request));
      return { redrives: jobs.map(viewJob) };
    },
  );
  app.get<{ Params: RedriveParams }>(
    "/redrives/:redriveId",
    {
      config: read,
      schema: {
        tags,
        summary: "Get the progress of a redrive",
        params: RedriveParams,
        response: { 200: RedriveView },
      },
    },
    (request) => applyToRedrive(context, request, "get"),
  );
  addChangeRoutes(app, context);
};

/** The operations on a redrive that has started. */
const CHANGES = {
  pause: "Pause a redrive",
  resume: "Resume a redrive that is paused or has failed",
  cancel: "Cancel a redrive; redriven tasks stay redriven",
} as const;

function addChangeRoutes(app: FastifyInstance, context: HttpContext): void {
  for (const verb of ["pause", "resume", "cancel"] as const) {
    app.post<{ Params: RedriveParams }>(
      `/redrives/:redriveId/${verb}`,
      {
        config: redriving,
        schema: {
          tags,
          summary: CHANGES[verb],
          params: RedriveParams,
          response: { 200: RedriveView },
        },
      },
      (request) => applyToRedrive(context, request, verb),
    );
  }
}

async function startRedrive(
  context: HttpContext,
  request: FastifyRequest<{ Body: RedriveToStart }>,
  reply: FastifyReply,
): Promise<RedriveView> {
  const { tenantId, limits } = callerOf(request);
  const { targets } = limits;
  const { filter, taskIds, ratePerSecond, canary, dryRun } = request.body;
  if ((filter === undefined) === (taskIds === undefined)) throw noSet();
  if (taskIds !== undefined) await assertDead(context, taskIds, tenantId);
  const order = {
    tenantId,
    filter: toTaskFilter(filter ?? {}),
    ...(taskIds !== undefined && { taskIds }),
    ...(targets !== undefined && { targets }),
    ...(ratePerSecond !== undefined && { ratePerSecond }),
    ...(canary !== undefined && { canary }),
    ...(dryRun !== undefined && { dryRun }),
  };
  const job = await context.redrive.jobs.start(order, (step) => context.limit.guard(step));
  if (job.dryRun) return viewJob(job);
  reply.code(202).header("location", `/redrives/${job.redriveId}`);
  return viewJob(job);
}

async function assertDead(
  { redrive, limit }: HttpContext,
  taskIds: readonly string[],
  tenantId: string,
): Promise<void> {
  for (const taskId of taskIds) {
    const task = await limit.guard(redrive.get(taskId, tenantId));
    if (task === null) throw taskNotFound(taskId);
    if (task.status !== "EXHAUSTED") {
      throw serviceError("TASK_STATE_CONFLICT", `task ${taskId} is ${task.status}, not EXHAUSTED`);
    }
  }
}

async function applyToRedrive(
  { redrive }: HttpContext,
  request: FastifyRequest<{ Params: RedriveParams }>,
  verb: "get" | keyof typeof CHANGES,
): Promise<RedriveView> {
  const { redriveId } = request.params;
  const { tenantId, limits } = callerOf(request);
  const { jobs } = redrive;
  const job = await (verb === "resume"
    ? jobs.resume(redriveId, tenantId, limits.targets)
    : jobs[verb](redriveId, tenantId));
  if (job !== undefined) return viewJob(job);
  throw serviceError("NOT_FOUND", `there is no redrive ${JSON.stringify(redriveId)}`);
}

function viewJob(stored: RedriveJob): RedriveView {
  const { tenantId: _, filter, taskIds, targets: __, ...job } = stored;
  return {
    ...job,
    skips: job.skips.map((one) => ({ ...one, taskIds: [...one.taskIds] })),
    waitsFor: job.status === "RUNNING" ? job.waitsFor : null,
    filter: taskIds === null ? viewFilter(filter) : null,
  };
}

function viewFilter({ label, redriven: _, ...filter }: RedriveJob["filter"]) {
  return { ...filter, ...(label !== undefined && { label: `${label.name}=${label.value}` }) };
}

function noSet(): Error {
  return wrong("one of filter and taskIds is required; filter {} means all dead letters");
}

function wrong(message: string): Error {
  return new DocumentError("INVALID_ARGUMENT", [{ field: "filter", value: undefined, message }]);
}

// Dead letter routes: list dead letters and discard them.

const PAGE = 250;

export const addDeadLetterRoutes: AddRoutes = (app, context) => {
  app.get<{ Querystring: DeadLetterQuery }>(
    "/dead-letters",
    {
      config: read,
      schema: {
        tags,
        summary: "List dead letters, newest first; ?group=true counts them instead",
        description: SHORT_PAGES,
        querystring: DeadLetterQuery,
        response: { 200: { anyOf: [TaskList, DeadLetterGroupList] } },
      },
    },
    (request, reply) => listDead(context, request, signalOf(request, reply)),
  );
  app.delete<{ Querystring: DeadFilterFields }>(
    "/dead-letters",
    {
      // Discarding many dead letters takes time.
      config: { ...redriving, limit: "own" },
      schema: {
        tags,
        summary: "Discard dead letters permanently",
        description: "At least one filter is required; createdFrom=0 means all.",
        querystring: DeadFilterFields,
        response: { 200: Discarded },
      },
    },
    (request) => discard(context, request),
  );
};

async function listDead(
  context: HttpContext,
  request: FastifyRequest<{ Querystring: DeadLetterQuery }>,
  signal: AbortSignal,
): Promise<TaskList | DeadLetterGroupList> {
  const { group, ...query } = request.query;
  if (group !== true) return listTasks(context, request, { ...query, status: "EXHAUSTED" }, signal);
  const tenantId = tenantOf(request);
  const { limit: _, cursor: __, ...filter } = query;
  const { groups, complete } = await groupDeadLetters(
    (wanted, page) => context.redrive.list(wanted, { ...page, signal }, tenantId),
    toTaskFilter(filter),
  );
  return { groups: [...groups], complete };
}

/** Page by page from the newest: discarded tasks do not appear again. */
async function discard(
  { redrive, limit }: HttpContext,
  request: FastifyRequest<{ Querystring: DeadFilterFields }>,
): Promise<Discarded> {
  const tenantId = tenantOf(request);
  const filter = toTaskFilter(request.query);
  if (Object.keys(filter).length === 0) throw noFilter();
  const dead: TaskFilter = { ...filter, status: "EXHAUSTED" };
  let discarded = 0;
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const next = { limit: PAGE, ...(cursor !== undefined && { cursor }) };
    const page: TaskPage = await limit.read((signal) =>
      redrive.list(dead, { ...next, signal }, tenantId),
    );
    const taskIds = page.tasks.map(({ taskId }) => taskId);
    discarded += await limit.guard(redrive.discard(taskIds, tenantId));
    cursor = page.cursor;
  }
  return { discarded };
}

function noFilter(): Error {
  return wrong("at least one filter is required; createdFrom=0 means all dead letters");
}
