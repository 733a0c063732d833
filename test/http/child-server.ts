/**
 * Served: a service in a process of its own, on a database file, to be killed and started again.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { type Caller, callerOn } from "./test-server.ts";

const SCRIPT = fileURLToPath(new URL("./child-server-process.mjs", import.meta.url));

export class Served {
  readonly caller: Caller;
  readonly #child: ChildProcess;

  static async start(file: string): Promise<Served> {
    const child = fork(SCRIPT, [file], { execArgv: [] });
    const [port] = await once(child, "message");
    return new Served(child, callerOn(port as number));
  }

  private constructor(child: ChildProcess, caller: Caller) {
    this.#child = child;
    this.caller = caller;
  }

  /** As a power cut would. Safe twice. */
  async kill(): Promise<void> {
    this.caller.close();
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}

export interface ListedTask {
  readonly taskId: string;
  readonly redrivenFrom: string | null;
  readonly redrivenTo: string | null;
  readonly callbackUrl: string | null;
  readonly labels: Readonly<Record<string, string>>;
}

/** Every task that matches, page by page. `query` is empty or begins with `?`. */
export async function allTasks(caller: Caller, query = ""): Promise<readonly ListedTask[]> {
  const tasks: ListedTask[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const start = query === "" ? "?" : `${query}&`;
    const next = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const path = `/retry-tasks${start}limit=250${next}`;
    const { json } = await caller.call({ method: "GET", path });
    tasks.push(...json.tasks);
    cursor = json.cursor;
  }
  return tasks;
}
