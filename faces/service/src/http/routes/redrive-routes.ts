/**
 * Redrive routes: making new tasks of dead letters at a pace, and following how far that is.
 */
import { DocumentError } from "@redrive/core";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { serviceError, taskNotFound } from "../../model/errors.ts";
import type { RedriveJob } from "../../operations/redrive-job.ts";
import {
  RedriveList,
  RedriveParams,
  RedriveToStart,
  RedriveView,
} from "../../schemas/operation-schemas.ts";
import { type AddRoutes, callerOf, type HttpContext, tenantOf } from "../context/http-context.ts";
import { toTaskFilter } from "../request/task-filter.ts";

const tags = ["dead letters"];
const read = { scope: "tasks:read" } as const;
const redriving = { scope: "dlq:redrive" } as const;

export const addRedriveRoutes: AddRoutes = (app, context) => {
  app.post<{ Body: RedriveToStart }>(
    "/redrives",
    {
      // Many dead letters take their time to be counted.
      config: { ...redriving, limit: "own" },
      schema: {
        tags,
        summary: "Make new tasks of dead letters, at a pace",
        description:
          "Each dead letter is redriven once, under its own idempotency key. The set is frozen when it begins. A canary goes first: when over a fifth of it fails, or a circuit opens, the redrive pauses by itself. It outlives the process: after a restart it goes on where it stood. A dead letter that cannot be redriven is skipped: it stays one, and `skips` says why.",
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
      schema: { tags, summary: "Redrives, newest first", response: { 200: RedriveList } },
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
        summary: "How far a redrive is",
        params: RedriveParams,
        response: { 200: RedriveView },
      },
    },
    (request) => applyToRedrive(context, request, "get"),
  );
  addChangeRoutes(app, context);
};

/** What can be done to a redrive that has begun. */
const CHANGES = {
  pause: "Let a redrive rest until it is resumed",
  resume: "Go on with a redrive that rests or has failed",
  cancel: "End a redrive; what was redriven stays so",
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
  const { tenantId: _, filter: __, taskIds: ___, targets: ____, ...job } = stored;
  return { ...job, skips: job.skips.map((one) => ({ ...one, taskIds: [...one.taskIds] })) };
}

function noSet(): Error {
  return wrong("one of filter and taskIds is required; filter {} means all dead letters");
}

function wrong(message: string): Error {
  return new DocumentError("INVALID_ARGUMENT", [{ field: "filter", value: undefined, message }]);
}
