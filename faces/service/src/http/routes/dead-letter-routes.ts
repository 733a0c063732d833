/**
 * Dead letter routes: looking at what was given up, and giving it up for good.
 */
import { DocumentError } from "@redrive/core";
import type { FastifyRequest } from "fastify";
import type { TaskFilter, TaskPage } from "../../model/task-query.ts";
import { groupDeadLetters } from "../../operations/dead-letter-groups.ts";
import { type AddRoutes, type Front, tenantOf } from "../front.ts";
import { DeadLetterGroupList, DeadLetterQuery, Discarded } from "../schemas/operation-schemas.ts";
import { DeadFilterFields, TaskList } from "../schemas/task-schemas.ts";
import { filterOf } from "../task-filter.ts";
import { listTasks } from "./task-routes.ts";

const tags = ["dead letters"];
const read = { scope: "tasks:read" } as const;
const redriving = { scope: "dlq:redrive" } as const;

const PAGE = 250;

export const addDeadLetterRoutes: AddRoutes = (app, front) => {
  app.get<{ Querystring: DeadLetterQuery }>(
    "/dead-letters",
    {
      config: read,
      schema: {
        tags,
        summary: "Tasks that were given up, newest first; or counted with ?group=true",
        querystring: DeadLetterQuery,
        response: { 200: { anyOf: [TaskList, DeadLetterGroupList] } },
      },
    },
    (request) => listDead(front, request),
  );
  app.delete<{ Querystring: DeadFilterFields }>(
    "/dead-letters",
    {
      // Many take their time to be removed.
      config: { ...redriving, limit: "own" },
      schema: {
        tags,
        summary: "Remove dead letters for good",
        description: "At least one filter is required; createdFrom=0 means all.",
        querystring: DeadFilterFields,
        response: { 200: Discarded },
      },
    },
    (request) => discard(front, request),
  );
};

async function listDead(
  front: Front,
  request: FastifyRequest<{ Querystring: DeadLetterQuery }>,
): Promise<TaskList | DeadLetterGroupList> {
  const { group, ...query } = request.query;
  if (group !== true) return listTasks(front, request, { ...query, status: "EXHAUSTED" });
  const tenantId = tenantOf(request);
  const { limit: _, cursor: __, ...filter } = query;
  const { groups, complete } = await groupDeadLetters(
    (wanted, page) => front.redrive.list(wanted, page, tenantId),
    filterOf(filter),
  );
  return { groups: [...groups], complete };
}

/** From the newest on, a page at a time: what is gone no longer comes up. */
async function discard(
  { redrive, limit }: Front,
  request: FastifyRequest<{ Querystring: DeadFilterFields }>,
): Promise<Discarded> {
  const tenantId = tenantOf(request);
  const filter = filterOf(request.query);
  if (Object.keys(filter).length === 0) throw noFilter();
  const dead: TaskFilter = { ...filter, status: "EXHAUSTED" };
  let discarded = 0;
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const next = { limit: PAGE, ...(cursor !== undefined && { cursor }) };
    const page: TaskPage = await limit.guard(redrive.list(dead, next, tenantId));
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
