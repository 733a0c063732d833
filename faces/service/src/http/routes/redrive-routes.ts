/**
 * Redrive routes: making new tasks of dead letters at a pace, and following how far that is.
 */
import { DocumentError } from "@redrive/core";
import type { FastifyReply, FastifyRequest } from "fastify";
import { serviceError } from "../../errors.ts";
import type { RedriveJob } from "../../operations/redrive-jobs.ts";
import { type AddRoutes, type Front, tenantOf } from "../front.ts";
import {
  RedriveList,
  RedriveParams,
  RedriveToStart,
  RedriveView,
} from "../schemas/operation-schemas.ts";
import { filterOf } from "../task-filter.ts";

const tags = ["dead letters"];
const read = { scope: "tasks:read" } as const;
const redriving = { scope: "dlq:redrive" } as const;

export const addRedriveRoutes: AddRoutes = (app, front) => {
  app.post<{ Body: RedriveToStart }>(
    "/redrives",
    {
      config: redriving,
      schema: {
        tags,
        summary: "Make new tasks of dead letters, at a pace",
        description:
          "Each dead letter is redriven once, under its own idempotency key. A redrive lives in the process: after a restart start it again, and what was done is skipped.",
        body: RedriveToStart,
        response: { 200: RedriveView, 202: RedriveView },
      },
    },
    (request, reply) => startRedrive(front, request, reply),
  );
  app.get(
    "/redrives",
    {
      config: read,
      schema: { tags, summary: "Redrives, newest first", response: { 200: RedriveList } },
    },
    async (request) => ({ redrives: front.jobs.list(tenantOf(request)).map(viewJob) }),
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
    async (request) => {
      const { params } = request;
      return known(params, front.jobs.get(params.redriveId, tenantOf(request)));
    },
  );
  app.post<{ Params: RedriveParams }>(
    "/redrives/:redriveId/cancel",
    {
      config: redriving,
      schema: {
        tags,
        summary: "End a redrive; what was redriven stays so",
        params: RedriveParams,
        response: { 200: RedriveView },
      },
    },
    async (request) => {
      const { params } = request;
      return known(params, front.jobs.cancel(params.redriveId, tenantOf(request)));
    },
  );
};

async function startRedrive(
  front: Front,
  request: FastifyRequest<{ Body: RedriveToStart }>,
  reply: FastifyReply,
): Promise<RedriveView> {
  const tenantId = tenantOf(request);
  const { filter, taskIds, ratePerSecond, dryRun } = request.body;
  if ((filter === undefined) === (taskIds === undefined)) throw noSet();
  if (taskIds !== undefined) await assertDead(front, taskIds, tenantId);
  const job = await front.jobs.start({
    tenantId,
    filter: filterOf(filter ?? {}),
    ...(taskIds !== undefined && { taskIds }),
    ...(ratePerSecond !== undefined && { ratePerSecond }),
    ...(dryRun !== undefined && { dryRun }),
  });
  reply.code(dryRun ? 200 : 202).header("location", `/redrives/${job.redriveId}`);
  return viewJob(job);
}

async function assertDead(
  { redrive }: Front,
  taskIds: readonly string[],
  tenantId: string,
): Promise<void> {
  for (const taskId of taskIds) {
    const task = await redrive.get(taskId, tenantId);
    if (task === null)
      throw serviceError("TASK_NOT_FOUND", `there is no task ${JSON.stringify(taskId)}`);
    if (task.status !== "EXHAUSTED") {
      throw serviceError("TASK_STATE_CONFLICT", `task ${taskId} is ${task.status}, not EXHAUSTED`);
    }
  }
}

function known({ redriveId }: RedriveParams, job: RedriveJob | undefined): RedriveView {
  if (job !== undefined) return viewJob(job);
  throw serviceError("NOT_FOUND", `there is no redrive ${JSON.stringify(redriveId)}`);
}

function viewJob({ tenantId: _, filter: __, ...job }: RedriveJob): RedriveView {
  return job;
}

function noSet(): Error {
  return wrong("one of filter and taskIds is required; filter {} means all dead letters");
}

function wrong(message: string): Error {
  return new DocumentError("INVALID_ARGUMENT", [{ field: "filter", value: undefined, message }]);
}
