/** Dead letter routes: list dead letters and discard them. */
import { DocumentError } from "@redrive/core";
import type { FastifyRequest } from "fastify";
import type { TaskFilter, TaskPage } from "../../model/task-query.ts";
import { groupDeadLetters } from "../../operations/selection/dead-letter-groups.ts";
import {
  DeadLetterGroupList,
  DeadLetterQuery,
  Discarded,
} from "../../schemas/operation-schemas.ts";
import { DeadFilterFields, TaskList } from "../../schemas/task-schemas.ts";
import { type AddRoutes, type HttpContext, tenantOf } from "../context/http-context.ts";
import { signalOf } from "../context/time-limit.ts";
import { toTaskFilter } from "../request/task-filter.ts";
import { listTasks, SHORT_PAGES } from "./task-routes.ts";

const tags = ["dead letters"];
const read = { scope: "tasks:read" } as const;
const redriving = { scope: "dlq:redrive" } as const;

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

function wrong(message: string): Error {
  return new DocumentError("INVALID_ARGUMENT", [{ field: "filter", value: undefined, message }]);
}
