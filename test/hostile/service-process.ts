/** Service process: a built `redrive serve` on a database file, and calls to its API. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { createInterface } from "node:readline";

export interface ServiceOptions {
  /** The path of `redrive.mjs`. */
  readonly main: string;
  readonly address: string;
  /** 0: any free port. */
  readonly port: number;
  readonly store: string;
  readonly apiKey: string;
  readonly env?: NodeJS.ProcessEnv;
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  /** The text as JSON; null if it is not JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  readonly json: any;
}

export interface Call {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON, unless it is bytes. */
  readonly body?: object | Buffer;
}

/** A failed attempt or an end: what a test waits for. */
interface TaskEvent {
  readonly type: string;
  readonly taskId?: string;
}

const MAX_CALLS = 32;

const WAITED_FOR = /^(attempt\.failed|task\.(succeeded|exhausted|cancelled))$/;

export class ServiceProcess {
  readonly #child: ChildProcess;
  readonly #options: ServiceOptions;
  readonly #ended: Promise<unknown[]>;
  /** Each line of its log, and everything that it wrote to stderr. */
  readonly log: string[] = [];
  /** Each line of its events, as it was received. */
  readonly events: string[] = [];
  errors = "";
  readonly #seen = new Map<string, number>();
  readonly #waiting = new Map<string, () => void>();
  #port: number;
  #calls = 0;
  readonly #queue: (() => void)[] = [];

  static async start(options: ServiceOptions): Promise<ServiceProcess> {
    const service = new ServiceProcess(options);
    await service.#ready();
    await service.#follow();
    return service;
  }

  private constructor(options: ServiceOptions) {
    const { main, address, port, store, apiKey, env } = options;
    this.#port = port;
    const args = ["serve", "--host", address, "--port", String(port), "--store", store];
    this.#options = options;
    this.#child = spawn(process.execPath, [main, ...args], {
      env: { ...plainEnvironment(), REDRIVE_API_KEY: apiKey, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#ended = once(this.#child, "close");
    process.once("exit", () => this.kill());
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.errors += text;
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  #ready(): Promise<void> {
    return new Promise((resolve, reject) => {
      const lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream });
      lines.on("line", (line) => {
        this.log.push(line);
        if (!line.includes("Redrive is ready at ")) return;
        this.#port = Number(new URL(JSON.parse(line).url).port);
        resolve();
      });
      lines.on("close", () => reject(new Error(`the service ended: ${this.errors}`)));
    });
  }

  /** Follows the events of the service, so that nothing has to be asked twice. */
  #follow(): Promise<void> {
    return new Promise((resolve, reject) => {
      const asked = this.#request({ method: "GET", path: "/events" });
      asked.on("error", reject);
      asked.on("response", (response) => {
        resolve();
        const lines = createInterface({ input: response });
        lines.on("line", (line) => {
          this.events.push(line);
          if (line.startsWith("data: ")) this.#record(JSON.parse(line.slice("data: ".length)));
        });
        response.on("error", () => {});
      });
      asked.end();
    });
  }

  #record({ type, taskId }: TaskEvent): void {
    if (taskId === undefined || !WAITED_FOR.test(type)) return;
    this.#seen.set(taskId, (this.#seen.get(taskId) ?? 0) + 1);
    this.#waiting.get(taskId)?.();
  }

  /** Resolves once this many attempts of the task have ended. */
  ended(taskId: string, attempts = 1): Promise<void> {
    return new Promise((resolve) => {
      const check = () => {
        if ((this.#seen.get(taskId) ?? 0) < attempts) return;
        this.#waiting.delete(taskId);
        resolve();
      };
      this.#waiting.set(taskId, check);
      check();
    });
  }

  #request({ method = "POST", path, headers = {}, body }: Call) {
    const { address, apiKey } = this.#options;
    const type =
      body === undefined || Buffer.isBuffer(body) ? {} : { "content-type": "application/json" };
    const authorization = `Bearer ${apiKey}`;
    return request({
      host: address,
      port: this.#port,
      method,
      path,
      headers: { authorization, ...type, ...headers },
    });
  }

  /** The service refuses callers that ask for too much at once. */
  async call(call: Call): Promise<Answer> {
    if (this.#calls >= MAX_CALLS) await new Promise<void>((resolve) => this.#queue.push(resolve));
    this.#calls++;
    try {
      return await this.#answer(call);
    } finally {
      this.#calls--;
      this.#queue.shift()?.();
    }
  }

  async #answer(call: Call): Promise<Answer> {
    const { body } = call;
    const asked = this.#request(call);
    asked.end(body === undefined || Buffer.isBuffer(body) ? body : JSON.stringify(body));
    const [response] = await once(asked, "response");
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const isJson = /json/.test(response.headers["content-type"] ?? "");
    return { status: response.statusCode, text, json: isJson ? JSON.parse(text) : null };
  }

  get(path: string): Promise<Answer> {
    return this.call({ method: "GET", path });
  }

  /** If a test has failed before it stopped it. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }

  /** Ends it as a supervisor does. Returns its exit code. */
  async stop(): Promise<number | null> {
    this.#child.kill("SIGTERM");
    const [code] = await this.#ended;
    return code as number | null;
  }
}

/** Without the settings of the person who runs the tests. */
function plainEnvironment(): NodeJS.ProcessEnv {
  const names = Object.keys(process.env).filter((name) => !/^(REDRIVE|OTEL)_/.test(name));
  return Object.fromEntries(names.map((name) => [name, process.env[name]]));
}
