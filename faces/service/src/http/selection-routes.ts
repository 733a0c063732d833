/**
 * Selection routes: count, list and suggest by filter, and change many tasks by their ids. A caller
 * lists the ids of a filter once, and changes exactly those: tasks that match later stay unchanged.
 */
import type { FastifyRequest } from "fastify";
import { bestOf, countTasks, type Suggestion, suggestValues } from "../operations/selection.ts";
import {
  CountQuery,
  CountView,
  Discarded,
  IdList,
  IdQuery,
  ManyResult,
  SuggestionList,
  SuggestionQuery,
  TaskIds,
} from "../schemas/operation-schemas.ts";
import { type AddRoutes, type HttpContext, signalOf, tenantOf } from "./http-context.ts";
import { type CursorScope, readCursor, toTaskFilter, writeCursor } from "./list-query.ts";
import { problemOf } from "./problem.ts";
import { SHORT_PAGES } from "./task-routes.ts";

const tags = ["tasks"];
const read = { scope: "tasks:read" } as const;
/** Each step has its own time limit. */
const change = { scope: "tasks:cancel", limit: "own" } as const;

/** A count ends after this time, incomplete. */
const COUNT_MS = 2500;
/** Tasks of one request that are changed at once. */
const AT_ONCE = 100;
const DESTINATION_PAGE = 250;
const DESTINATION_PAGES = 8;

export const addSelectionRoutes: AddRoutes = (app, context) => {
  app.get<{ Querystring: CountQuery }>(
    "/retry-tasks/count",
    {
      config: read,
      schema: {
        tags,
        summary: "Count the tasks that match a filter",
        querystring: CountQuery,
        response: { 200: CountView },
      },
    },
    (request, reply) => count(context, request, signalOf(request, reply)),
  );
  app.get<{ Querystring: IdQuery }>(
    "/retry-tasks/ids",
    {
      config: read,
      schema: {
        tags,
        summary: "List the ids of tasks, newest first",
        description: SHORT_PAGES,
        querystring: IdQuery,
        response: { 200: IdList },
      },
    },
    (request, reply) => listIds(context, request, signalOf(request, reply)),
  );
  app.get<{ Querystring: SuggestionQuery }>(
    "/retry-tasks/suggestions",
    {
      config: read,
      schema: {
        tags,
        summary: "Suggest values for a filter",
        description: "Values of the newest tasks that match the other fields of the filter.",
        querystring: SuggestionQuery,
        response: { 200: SuggestionList },
      },
    },
    (request, reply) => suggest(context, request, signalOf(request, reply)),
  );
  addChangeRoutes(app, context);
};

const addChangeRoutes: AddRoutes = (app, context) => {
  const { redrive } = context;
  const many = (summary: string) => ({
    tags,
    summary,
    description: "Each task is changed separately; the response lists those that were not.",
    body: TaskIds,
    response: { 200: ManyResult },
  });
  app.post<{ Body: TaskIds }>(
    "/retry-tasks/cancel",
    { config: change, schema: many("Cancel up to 1000 tasks") },
    (request) =>
      changeMany(context, request, async (taskId, tenantId) => {
        const { status } = await redrive.cancel(taskId, tenantId);
        return status === "CANCELLED" ? "done" : "requested";
      }),
  );
  app.post<{ Body: TaskIds }>(
    "/retry-tasks/retry",
    { config: change, schema: many("Retry up to 1000 waiting tasks now") },
    (request) =>
      changeMany(context, request, async (taskId, tenantId) => {
        await redrive.retryNow(taskId, tenantId);
        return "done";
      }),
  );
  app.post<{ Body: TaskIds }>(
    "/dead-letters/discard",
    {
      config: { scope: "dlq:redrive" },
      schema: {
        tags: ["dead letters"],
        summary: "Discard up to 1000 dead letters permanently",
        description: "Ids of tasks that are no dead letters are ignored.",
        body: TaskIds,
        response: { 200: Discarded },
      },
    },
    async (request) => ({
      discarded: await redrive.discard(request.body.taskIds, tenantOf(request)),
    }),
  );
};

function count(
  { redrive, clock }: HttpContext,
  request: FastifyRequest<{ Querystring: CountQuery }>,
  signal: AbortSignal,
): Promise<CountView> {
  const untilMs = clock.monotonicMs() + COUNT_MS;
  const isOver = () => clock.monotonicMs() > untilMs;
  const filter = toTaskFilter(request.query);
  return countTasks(redrive.query, tenantOf(request), filter, { signal, isOver });
}

async function listIds(
  { redrive }: HttpContext,
  request: FastifyRequest<{ Querystring: IdQuery }>,
  signal: AbortSignal,
): Promise<IdList> {
  const { limit = 1000, cursor, ...query } = request.query;
  const scope: CursorScope = { tenantId: tenantOf(request), list: "tasks" };
  const position = cursor === undefined ? {} : { cursor: readCursor(scope, cursor) };
  const page = { limit, signal, ...position };
  const found = await redrive.query.listIds(scope.tenantId, toTaskFilter(query), page);
  return { taskIds: [...found.taskIds], cursor: writeCursor(scope, found.cursor) };
}

async function suggest(
  context: HttpContext,
  request: FastifyRequest<{ Querystring: SuggestionQuery }>,
  signal: AbortSignal,
): Promise<SuggestionList> {
  const { field, text = "", ...query } = request.query;
  const tenantId = tenantOf(request);
  if (field === "destination") {
    return { suggestions: [...bestOf(await destinationsOf(context, tenantId), text)] };
  }
  const { [field]: _, ...others } = toTaskFilter(query);
  const found = await suggestValues(
    (filter, page) => context.redrive.list(filter, { ...page, signal }, tenantId),
    field,
    text,
    others,
  );
  return { suggestions: [...found] };
}

/** All names, up to a bound, with the number of their tasks. */
async function destinationsOf(
  { redrive: { query } }: HttpContext,
  tenantId: string,
): Promise<readonly Suggestion[]> {
  const found: Suggestion[] = [];
  let cursor: string | null | undefined;
  for (let pages = 0; cursor !== null && pages < DESTINATION_PAGES; pages++) {
    const position = cursor === undefined ? {} : { cursor };
    const page = await query.destinations(tenantId, { limit: DESTINATION_PAGE, ...position });
    for (const { row, tasks } of page.destinations) {
      const total = Object.values(tasks).reduce((sum, one) => sum + one, 0);
      found.push({ value: row.name, count: total });
    }
    cursor = page.cursor;
  }
  return found;
}

const UNAVAILABLE = "STORE_UNAVAILABLE";

type ChangeTask = (taskId: string, tenantId: string) => Promise<"done" | "requested">;

async function changeMany(
  { limit }: HttpContext,
  request: FastifyRequest<{ Body: TaskIds }>,
  change: ChangeTask,
): Promise<ManyResult> {
  const tenantId = tenantOf(request);
  const taskIds = [...new Set(request.body.taskIds)];
  const result: ManyResult = { done: 0, requested: 0, refused: [] };
  let unavailable: string | undefined;
  for (let first = 0; first < taskIds.length; first += AT_ONCE) {
    const slice = taskIds.slice(first, first + AT_ONCE);
    const detail = unavailable;
    // A store that does not respond would let the caller wait for every slice.
    if (detail !== undefined) {
      result.refused.push(...slice.map((taskId) => ({ taskId, code: UNAVAILABLE, detail })));
      continue;
    }
    const ends = await Promise.allSettled(
      slice.map((taskId) => limit.guard(change(taskId, tenantId))),
    );
    for (const [at, end] of ends.entries()) {
      if (end.status === "fulfilled") result[end.value]++;
      else {
        const problem = problemOf(end.reason);
        if (problem.code === UNAVAILABLE) unavailable = problem.detail;
        const { code, detail: why } = problem;
        result.refused.push({ taskId: slice[at] ?? "", code, detail: why });
      }
    }
  }
  return result;
}
