/** Fleet client: the calls that tests make to one node, and what they need of the responses. */
import { setTimeout as sleep } from "node:timers/promises";

export interface NewTask {
  readonly targetUrl: string;
  readonly destination?: string;
  readonly idempotencyKey?: string;
  readonly scheduledAt?: number;
  readonly policy?: object;
}

export interface TaskView {
  readonly taskId: string;
  readonly status: string;
  readonly attemptNumber: number;
  readonly finishedAt: number | null;
  readonly reason?: string | null;
}

export interface AttemptView {
  readonly attemptNumber: number;
  readonly outcome: string;
  readonly startedAt: number;
}

export interface Response {
  readonly status: number;
  readonly tookMs: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into responses of every shape
  readonly json: any;
}

const PAGE = 200;
/** The service refuses more than 100 lists at once. */
const AT_ONCE = 20;

export class FleetClient {
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  async call(method: string, path: string, body?: object): Promise<Response> {
    const startMs = performance.now();
    const response = await fetch(`${this.#url}${path}`, {
      method,
      ...(body !== undefined && {
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
    });
    const text = await response.text();
    const json = text === "" ? null : JSON.parse(text);
    return { status: response.status, tookMs: performance.now() - startMs, json };
  }

  /** The call must succeed. */
  async get<T>(path: string): Promise<T> {
    return (await this.#must("GET", path)) as T;
  }

  /** The text of a page, such as the metrics. */
  async text(path: string): Promise<string> {
    return (await fetch(`${this.#url}${path}`)).text();
  }

  post(task: NewTask): Promise<Response> {
    return this.call("POST", "/retry-tasks", { json: {}, ...task });
  }

  /** Creates a task and returns its id. */
  async create(task: NewTask): Promise<string> {
    const { taskId } = (await this.#must("POST", "/retry-tasks", { json: {}, ...task })) as {
      taskId: string;
    };
    return taskId;
  }

  async configure(name: string, document: object): Promise<void> {
    await this.#must("PUT", `/destinations/${encodeURIComponent(name)}`, document);
  }

  async pause(name: string): Promise<void> {
    await this.#must("POST", `/destinations/${encodeURIComponent(name)}/pause`);
  }

  async resume(name: string): Promise<void> {
    await this.#must("POST", `/destinations/${encodeURIComponent(name)}/resume`);
  }

  /** The attempts of each task, in the order of the ids. */
  async attempts(taskIds: readonly string[]): Promise<readonly (readonly AttemptView[])[]> {
    const found: (readonly AttemptView[])[] = [];
    for (let from = 0; from < taskIds.length; from += AT_ONCE) {
      const pages = taskIds
        .slice(from, from + AT_ONCE)
        .map((taskId) => this.get<{ attempts: AttemptView[] }>(`/retry-tasks/${taskId}/attempts`));
      for (const { attempts } of await Promise.all(pages)) found.push(attempts);
    }
    return found;
  }

  /** All tasks, by id. */
  async tasks(): Promise<ReadonlyMap<string, TaskView>> {
    const found = new Map<string, TaskView>();
    let cursor: string | null = "";
    while (cursor !== null) {
      const at = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const page: { tasks: TaskView[]; cursor: string | null } = await this.get(
        `/retry-tasks?limit=${PAGE}${at}`,
      );
      for (const task of page.tasks) found.set(task.taskId, task);
      cursor = page.cursor ?? null;
    }
    return found;
  }

  async #must(method: string, path: string, body?: object): Promise<unknown> {
    const call = () => this.call(method, path, body);
    const { status, json } = await (method === "POST" ? call() : repeated(call));
    if (status < 300) return json;
    throw new Error(`${method} ${path} was answered with ${status}: ${JSON.stringify(json)}`);
  }
}

const MAX_REPEATS = 20;
const PAUSE_MS = 50;

/**
 * Repeats a call that may be repeated, as a client does: after a 503, because a store may take too long
 * on a busy machine, and after a connection was closed while it was idle.
 */
export async function repeated(call: () => Promise<Response>): Promise<Response> {
  for (let repeats = 0; ; repeats++) {
    const response = await call().catch((error: unknown) => {
      if (repeats === MAX_REPEATS) throw error;
      return null;
    });
    if (response !== null && (response.status !== 503 || repeats === MAX_REPEATS)) return response;
    await sleep(PAUSE_MS);
  }
}

export const ENDED: ReadonlySet<string> = new Set(["SUCCEEDED", "EXHAUSTED", "CANCELLED"]);
