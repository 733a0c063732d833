/**
 * Client: the HTTP API as typed functions, for programs and for the command line. It throws a
 * `RedriveError` with the code of the problem document that the service returned.
 */
import type { PolicyDocument } from "@redrive/core";
import type { TaskInput } from "../intake/task-input.ts";
import type { ServiceDocument } from "../model/delivery/delivery-settings.ts";
import { withPlainHeaders } from "../model/task.ts";
import type {
  ActivityView,
  CountQuery,
  CountView,
  DeadLetterGroupList,
  DestinationHistory,
  DestinationList,
  DestinationQuery,
  DestinationView,
  Discarded,
  IdList,
  IdQuery,
  ManyResult,
  PolicyList,
  PolicyView,
  RedriveList,
  RedriveToStart,
  RedriveView,
  SuggestionList,
  SuggestionQuery,
} from "../schemas/operation-schemas.ts";
import type {
  AlertsView,
  CreatedKey,
  KeyList,
  KeyToCreate,
  TestAlert,
} from "../schemas/setting-schemas.ts";
import type { SimulationToRun, SimulationView } from "../schemas/simulation-schemas.ts";
import type {
  AttemptList,
  BatchResult,
  CancelView,
  DeadFilterFields,
  EventQuery,
  EventView,
  ListQuery,
  TaskList,
  TaskReceipt,
  TaskView,
  UploadedBody,
} from "../schemas/task-schemas.ts";
import {
  type ClientOptions,
  createTransport,
  parseResponse,
  type Query,
  type RawBody,
  type Transport,
} from "./transport.ts";

export { guardFields } from "../model/delivery/delivery-settings.ts";
export { knownDocument } from "../model/delivery/service-document.ts";
export { SERVICE_GUARDS, serviceGuards } from "../model/delivery/service-guards.ts";
export { REDRIVE_BOUNDS } from "../model/redrive-bounds.ts";
export type { SimulationToRun, SimulationView } from "../schemas/simulation-schemas.ts";
export type { RawBody } from "./transport.ts";

/** A task as the HTTP API takes it. Send bytes as `bodyBase64`. */
export type TaskToCreate = Omit<TaskInput, "body"> & { readonly body?: string };

/**
 * The response to a create. It holds all fields of the task if the task was known or waited for.
 */
export type CreatedTask = TaskReceipt & Partial<TaskView> & { readonly replayed: boolean };

export interface CreateOptions {
  /** Waits for the end of the task, at most 25 s. Default: 0. */
  readonly waitSeconds?: number;
  /** The Redrive services that the task has passed through. The service refuses loops. Default: 0. */
  readonly hops?: number;
}

export interface Client
  extends BodyCalls,
    DestinationCalls,
    SelectionCalls,
    SettingCalls,
    SimulationCalls {
  /** Resolves once the task is durable or, with `waitSeconds` (at most 25), once it has ended. */
  createTask(task: TaskToCreate, options?: CreateOptions): Promise<CreatedTask>;
  /** At most 1000 tasks. The service checks each one separately. */
  createTasks(tasks: readonly TaskToCreate[]): Promise<BatchResult>;
  getTask(taskId: string, options?: { readonly include?: readonly Include[] }): Promise<TaskView>;
  /** One page, which may be short or empty. Only a null cursor ends the list; see `fullPage`. */
  listTasks(query?: ListQuery): Promise<TaskList>;
  cancelTask(taskId: string): Promise<CancelView>;
  retryNow(taskId: string): Promise<TaskReceipt>;
  listAttempts(taskId: string, query?: AttemptQuery): Promise<AttemptList>;

  registerPolicy(document: PolicyDocument): Promise<PolicyView>;
  replacePolicy(policyId: string, document: PolicyDocument): Promise<PolicyView>;
  getPolicy(policyId: string, options?: { readonly version?: number }): Promise<PolicyView>;
  listPolicies(): Promise<PolicyList>;
  removePolicy(policyId: string): Promise<void>;

  /** One page, like `listTasks`. */
  listDeadLetters(query?: Omit<ListQuery, "status">): Promise<TaskList>;
  groupDeadLetters(filter?: DeadFilterFields): Promise<DeadLetterGroupList>;
  /** Removes them permanently. At least one field of the filter is required. */
  discardDeadLetters(filter: DeadFilterFields): Promise<Discarded>;
  startRedrive(redrive: RedriveToStart): Promise<RedriveView>;
  getRedrive(redriveId: string): Promise<RedriveView>;
  listRedrives(): Promise<RedriveList>;
  pauseRedrive(redriveId: string): Promise<RedriveView>;
  resumeRedrive(redriveId: string): Promise<RedriveView>;
  cancelRedrive(redriveId: string): Promise<RedriveView>;

  /**
   * What happens on the node that answers, as it happens. Ends with the connection; pass the last id
   * as `lastEventId` to continue.
   */
  events(options?: EventOptions): AsyncGenerator<ServiceEvent, void, undefined>;

  /** True if the service accepts tasks. */
  isReady(): Promise<boolean>;
  /** In the text format of Prometheus. */
  metrics(): Promise<string>;
}

export type Include = "body" | "explain";

export interface AttemptQuery {
  readonly limit?: number;
  readonly cursor?: string;
  readonly include?: "body";
}

export function createClient(options: ClientOptions): Client {
  const transport = createTransport(options);
  return {
    ...taskCalls(transport, options.url),
    ...bodyCalls(transport),
    ...selectionCalls(transport),
    ...policyCalls(transport),
    ...deadLetterCalls(transport),
    ...destinationCalls(transport),
    ...settingCalls(transport),
    ...simulationCalls(transport),
    events: (wanted = {}) => readEvents(transport, wanted),
    async isReady() {
      const { status } = await transport.send({ method: "GET", path: ["readyz"], accepts: [503] });
      return status === 200;
    },
    async metrics() {
      return (await transport.send({ method: "GET", path: ["metrics"] })).text;
    },
  };
}

type TaskCalls = Pick<
  Client,
  | "createTask"
  | "createTasks"
  | "getTask"
  | "listTasks"
  | "cancelTask"
  | "retryNow"
  | "listAttempts"
>;

function taskCalls({ request, send }: Transport, url: string): TaskCalls {
  const root = "retry-tasks";
  return {
    async createTask(task, { waitSeconds = 0, hops = 0 } = {}) {
      const headers = {
        ...(waitSeconds > 0 && { prefer: `wait=${waitSeconds}` }),
        ...(hops > 0 && { "redrive-hop": String(hops) }),
      };
      const response = await send({
        method: "POST",
        path: [root],
        body: withPlainHeaders(task),
        headers,
        isKeyed: isKeyed(task),
      });
      const replayed = response.headers.get("idempotent-replayed") === "true";
      return { ...parseResponse<TaskReceipt>(url, response.text, "taskId"), replayed };
    },
    createTasks: (tasks) =>
      request(
        {
          method: "POST",
          path: [root, "batch"],
          body: tasks.map(withPlainHeaders),
          isKeyed: tasks.every(isKeyed),
        },
        "results",
      ),
    getTask(taskId, { include = [] } = {}) {
      const query: Query = include.length > 0 ? { include: include.join(",") } : {};
      return request({ method: "GET", path: [root, taskId], query }, "taskId");
    },
    listTasks: (query = {}) => request({ method: "GET", path: [root], query }, "tasks"),
    cancelTask: (taskId) => request({ method: "DELETE", path: [root, taskId] }, "taskId"),
    retryNow: (taskId) => request({ method: "POST", path: [root, taskId, "retry"] }, "taskId"),
    listAttempts: (taskId, query = {}) =>
      request({ method: "GET", path: [root, taskId, "attempts"], query: { ...query } }, "attempts"),
  };
}

/** The service recognizes a repetition by its key. */
function isKeyed({ idempotencyKey }: TaskToCreate): boolean {
  return idempotencyKey !== undefined;
}

type PolicyCalls = Pick<
  Client,
  "registerPolicy" | "replacePolicy" | "getPolicy" | "listPolicies" | "removePolicy"
>;

function policyCalls({ request, send }: Transport): PolicyCalls {
  const root = "retry-policies";
  return {
    registerPolicy: (document) =>
      request({ method: "POST", path: [root], body: document }, "version"),
    replacePolicy: (policyId, document) =>
      request({ method: "PUT", path: [root, policyId], body: document }, "version"),
    getPolicy: (policyId, query = {}) =>
      request({ method: "GET", path: [root, policyId], query: { ...query } }, "version"),
    listPolicies: () => request({ method: "GET", path: [root] }, "policies"),
    async removePolicy(policyId) {
      await send({ method: "DELETE", path: [root, policyId] });
    },
  };
}

type DeadLetterCalls = Pick<
  Client,
  | "listDeadLetters"
  | "groupDeadLetters"
  | "discardDeadLetters"
  | "startRedrive"
  | "getRedrive"
  | "listRedrives"
  | "pauseRedrive"
  | "resumeRedrive"
  | "cancelRedrive"
>;

function deadLetterCalls({ request }: Transport): DeadLetterCalls {
  const dead = ["dead-letters"];
  return {
    listDeadLetters: (query = {}) => request({ method: "GET", path: dead, query }, "tasks"),
    groupDeadLetters: (filter = {}) =>
      request({ method: "GET", path: dead, query: { ...filter, group: true } }, "groups"),
    discardDeadLetters: (filter) =>
      request({ method: "DELETE", path: dead, query: filter }, "discarded"),
    startRedrive: (redrive) =>
      request({ method: "POST", path: ["redrives"], body: redrive }, "redriveId"),
    getRedrive: (redriveId) =>
      request({ method: "GET", path: ["redrives", redriveId] }, "redriveId"),
    listRedrives: () => request({ method: "GET", path: ["redrives"] }, "redrives"),
    pauseRedrive: (redriveId) =>
      request({ method: "POST", path: ["redrives", redriveId, "pause"] }, "redriveId"),
    resumeRedrive: (redriveId) =>
      request({ method: "POST", path: ["redrives", redriveId, "resume"] }, "redriveId"),
    cancelRedrive: (redriveId) =>
      request({ method: "POST", path: ["redrives", redriveId, "cancel"] }, "redriveId"),
  };
}

interface DestinationCalls {
  /** By name. Pass the cursor of a page to get the next one. */
  listDestinations(query?: DestinationQuery): Promise<DestinationList>;
  getDestination(name: string): Promise<DestinationView>;
  configureDestination(name: string, document: ServiceDocument): Promise<DestinationView>;
  pauseDestination(name: string): Promise<DestinationView>;
  /** Sends to a target URL again that a 410 response has disabled. */
  enableTarget(name: string, targetUrl: string): Promise<DestinationView>;
  resumeDestination(name: string): Promise<DestinationView>;
  /** Closes an open breaker: the destination gets calls again, slowly at first. */
  closeBreaker(name: string): Promise<DestinationView>;
  /** Lets an open breaker send the next due task as a probe now. */
  probeDestination(name: string): Promise<DestinationView>;
}

/** The part of the client for destinations and their documents. */
function destinationCalls({ request }: Transport): DestinationCalls {
  const root = "destinations";
  return {
    listDestinations: (query = {}) =>
      request({ method: "GET", path: [root], query }, "destinations"),
    getDestination: (name) => request({ method: "GET", path: [root, name] }, "breakerState"),
    configureDestination: (name, document) =>
      request({ method: "PUT", path: [root, name], body: document }, "breakerState"),
    pauseDestination: (name) =>
      request({ method: "POST", path: [root, name, "pause"] }, "breakerState"),
    enableTarget: (name, targetUrl) =>
      request(
        { method: "POST", path: [root, name, "enable"], body: { targetUrl } },
        "breakerState",
      ),
    resumeDestination: (name) =>
      request({ method: "POST", path: [root, name, "resume"] }, "breakerState"),
    closeBreaker: (name) =>
      request({ method: "POST", path: [root, name, "close-breaker"] }, "breakerState"),
    probeDestination: (name) =>
      request({ method: "POST", path: [root, name, "probe"] }, "breakerState"),
  };
}

interface SelectionCalls {
  /** Exact, unless `complete` is false. */
  countTasks(filter?: CountQuery): Promise<CountView>;
  /** One page of ids, which may be short. Only a null cursor ends the list. */
  listTaskIds(query?: IdQuery): Promise<IdList>;
  /** Values of a field, for people who write a filter. */
  suggestValues(query: SuggestionQuery): Promise<SuggestionList>;
  /** At most 1000 tasks. Each is canceled separately. */
  cancelTasks(taskIds: readonly string[]): Promise<ManyResult>;
  /** At most 1000 tasks. Each is retried separately. */
  retryTasksNow(taskIds: readonly string[]): Promise<ManyResult>;
  /** Removes them permanently. At most 1000 ids; those of other tasks are ignored. */
  discardTasks(taskIds: readonly string[]): Promise<Discarded>;
}

/** The part of the client for filters, and for operations on many tasks. */
function selectionCalls({ request }: Transport): SelectionCalls {
  const root = "retry-tasks";
  const read = <T>(
    name: string,
    query: CountQuery | IdQuery | SuggestionQuery,
    field: keyof T & string,
  ) => request<T>({ method: "GET", path: [root, name], query }, field);
  const change = <T>(
    path: readonly string[],
    taskIds: readonly string[],
    field: keyof T & string,
  ) => request<T>({ method: "POST", path, body: { taskIds } }, field);
  return {
    countTasks: (query = {}) => read("count", query, "count"),
    listTaskIds: (query = {}) => read("ids", query, "taskIds"),
    suggestValues: (query) => read("suggestions", query, "suggestions"),
    cancelTasks: (taskIds) => change([root, "cancel"], taskIds, "done"),
    retryTasksNow: (taskIds) => change([root, "retry"], taskIds, "done"),
    discardTasks: (taskIds) => change(["dead-letters", "discard"], taskIds, "discarded"),
  };
}

interface SettingCalls {
  listKeys(): Promise<KeyList>;
  /** The response contains the key itself, which is shown only once. */
  createKey(key: KeyToCreate): Promise<CreatedKey>;
  revokeKey(keyId: string): Promise<void>;
  alerts(): Promise<AlertsView>;
  /** Posts a test alert, by a task. */
  testAlert(): Promise<TestAlert>;
  /** The last hour per minute. */
  activity(): Promise<ActivityView>;
  /** The last hour of one destination on the node that answers, and the changes of its limit. */
  destinationHistory(name: string): Promise<DestinationHistory>;
}

/** The part of the client for keys, alerts, and what happened in the last hour. */
function settingCalls({ request, send }: Transport): SettingCalls {
  const read = <T>(path: readonly string[], field: keyof T & string) =>
    request<T>({ method: "GET", path }, field);
  return {
    listKeys: () => read(["keys"], "isRequired"),
    createKey: (key) => request({ method: "POST", path: ["keys"], body: key }, "key"),
    async revokeKey(keyId) {
      await send({ method: "DELETE", path: ["keys", keyId] });
    },
    alerts: () => read(["alerts"], "destination"),
    testAlert: () => request({ method: "POST", path: ["alerts", "test"] }, "taskId"),
    activity: () => read(["activity"], "counts"),
    destinationHistory: (name) => read(["destinations", name, "history"], "counts"),
  };
}

interface SimulationCalls {
  /** Simulates a scenario, or an outage of a destination as the service has measured it. */
  simulate(simulation: SimulationToRun): Promise<SimulationView>;
}

/** The part of the client for simulations. */
function simulationCalls({ request }: Transport): SimulationCalls {
  return {
    simulate: (simulation) =>
      request({ method: "POST", path: ["simulations"], body: simulation }, "report"),
  };
}

interface BodyCalls {
  /** Stores a body of any size. Create tasks with its `bodyRef`. */
  uploadBody(body: RawBody): Promise<UploadedBody>;
  /** The body of a task, as a stream. It fails if the stored bytes are not the accepted ones. */
  downloadBody(taskId: string): Promise<ReadableStream<Uint8Array>>;
}

/** The part of the client for bodies of any size. */
function bodyCalls({ request, open }: Transport): BodyCalls {
  return {
    uploadBody: (bytes) => request({ method: "POST", path: ["bodies"], bytes }, "bodyRef"),
    async downloadBody(taskId) {
      const { body } = await open({ method: "GET", path: ["retry-tasks", taskId, "body"] });
      return body ?? new Blob([]).stream();
    },
  };
}

// Event stream: reads `GET /events` as typed events. It ends with the connection; to continue, call
// it again with the last id.

export type ServiceEvent =
  | { readonly kind: "event"; readonly id: string; readonly event: EventView }
  /** The service has lost the events since `lastEventId`, so the reader must read the state again. */
  | { readonly kind: "reset"; readonly id: string }
  /** Nothing happened that the reader asked for. The id is a new place to continue from. */
  | { readonly kind: "position"; readonly id: string };

export interface EventOptions extends EventQuery {
  /** Ends the stream without an error. */
  readonly signal?: AbortSignal;
}

/** A block is a few kilobytes. A longer one does not come from Redrive. */
const MAX_BLOCK = 1024 * 1024;

async function* readEvents(
  { open }: Pick<Transport, "open">,
  { signal, ...query }: EventOptions,
): AsyncGenerator<ServiceEvent, void, undefined> {
  const headers = { accept: "text/event-stream" };
  const call = { method: "GET", path: ["events"], query: query as Query, headers } as const;
  try {
    const { body } = await open(call, signal);
    for await (const block of blocksOf((body ?? []) as AsyncIterable<Uint8Array>)) {
      const event = eventOf(block);
      if (event !== undefined) yield event;
    }
  } catch (error) {
    if (!signal?.aborted) throw error;
  }
}

/** The blocks of the stream: what is between two empty lines. */
async function* blocksOf(
  bytes: AsyncIterable<Uint8Array>,
): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of bytes) {
    rest += decoder.decode(chunk, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    if (rest.length > MAX_BLOCK) throw new Error("an event of the service is too long");
    yield* blocks;
  }
}

function eventOf(block: string): ServiceEvent | undefined {
  const fields = new Map<string, string>();
  for (const line of block.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) fields.set(line.slice(0, at), line.slice(at + 2));
  }
  const id = fields.get("id");
  const data = fields.get("data");
  if (id === undefined) return undefined;
  if (fields.get("event") === "reset") return { kind: "reset", id };
  if (data === undefined) return { kind: "position", id };
  return { kind: "event", id, event: JSON.parse(data) as EventView };
}

// Full page: follows the cursors of short pages. The service examines a limited number of rows per
// request, so a page may be short or empty before the end of the list.

export interface PagePosition {
  /** 1 to 250. Default: 50. */
  readonly limit?: number;
  readonly cursor?: string;
}

/** Asks for pages until there are `limit` tasks, or the list ends. */
export async function fullPage<Query extends PagePosition>(
  list: (query: Query) => Promise<TaskList>,
  query: Query,
): Promise<TaskList> {
  const { limit = 50 } = query;
  let { tasks, cursor } = await list(query);
  while (cursor !== null && tasks.length < limit) {
    const next = await list({ ...query, limit: limit - tasks.length, cursor });
    tasks = [...tasks, ...next.tasks];
    cursor = next.cursor;
  }
  return { tasks, cursor };
}
