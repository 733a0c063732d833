/**
 * Client: the HTTP API as typed functions, for programs and for the command line. It throws a
 * `RedriveError` with the code of the problem document that the service returned.
 */

import type { PolicyDocument } from "@redrive/core";
import type { TaskInput } from "../intake/task-input.ts";
import { withPlainHeaders } from "../model/headers-input.ts";
import type { AttemptList } from "../schemas/attempt-schemas.ts";
import type { BatchResult } from "../schemas/batch-schemas.ts";
import type {
  DeadLetterGroupList,
  Discarded,
  PolicyList,
  PolicyView,
  RedriveList,
  RedriveToStart,
  RedriveView,
} from "../schemas/operation-schemas.ts";
import type {
  CancelView,
  DeadFilterFields,
  ListQuery,
  TaskList,
  TaskReceipt,
  TaskView,
} from "../schemas/task-schemas.ts";
import { type BodyCalls, bodyCalls } from "./body-calls.ts";
import { type DestinationCalls, destinationCalls } from "./destination-calls.ts";
import { type EventOptions, readEvents, type ServiceEvent } from "./event-stream.ts";
import { type SelectionCalls, selectionCalls } from "./selection-calls.ts";
import { type SettingCalls, settingCalls } from "./setting-calls.ts";
import { type SimulationCalls, simulationCalls } from "./simulation-calls.ts";
import {
  type ClientOptions,
  createTransport,
  parseResponse,
  type Query,
  type Transport,
} from "./transport.ts";

export { guardFields } from "../model/delivery/delivery-settings.ts";
export { knownDocument } from "../model/delivery/service-document.ts";
export { SERVICE_GUARDS, serviceGuards } from "../model/delivery/service-guards.ts";
export { REDRIVE_BOUNDS } from "../model/redrive-bounds.ts";
export type { SimulationToRun, SimulationView } from "../schemas/simulation-schemas.ts";
export type { EventOptions, ServiceEvent } from "./event-stream.ts";
export { fullPage, type PagePosition } from "./full-page.ts";
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
      });
      const replayed = response.headers.get("idempotent-replayed") === "true";
      return { ...parseResponse<TaskReceipt>(url, response.text, "taskId"), replayed };
    },
    createTasks: (tasks) =>
      request(
        { method: "POST", path: [root, "batch"], body: tasks.map(withPlainHeaders) },
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
