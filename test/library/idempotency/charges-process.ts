/** Charges process: starts a process that serves charges, sends requests to it, stops and kills it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface, type Interface } from "node:readline";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("./charges-child.mjs", import.meta.url));

export interface ChargeResult {
  readonly status: number;
  readonly isReplayed: boolean;
  readonly body: string;
}

export class ChargesProcess {
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  #port = "";
  #errors = "";

  constructor(kind: string, place: string) {
    this.#child = spawn(process.execPath, [SCRIPT, kind, place], { stdio: "pipe" });
    this.#child.stderr?.on("data", (chunk: Buffer) => {
      this.#errors += chunk;
    });
    this.#lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream });
  }

  async start(): Promise<this> {
    this.#port = (await this.said("port")).split(" ")[1] ?? "";
    return this;
  }

  /** The next line that begins with this word. */
  async said(word: string): Promise<string> {
    return await new Promise((resolve, reject) => {
      const onLine = (line: string) => {
        if (!line.startsWith(`${word} `)) return;
        this.#lines.off("line", onLine);
        resolve(line);
      };
      this.#lines.on("line", onLine);
      this.#child.once("exit", () => reject(new Error(`the child ended: ${this.#errors}`)));
    });
  }

  async charge(key: string, headers: Record<string, string> = {}): Promise<ChargeResult> {
    const response = await fetch(`http://127.0.0.1:${this.#port}/charges`, {
      method: "POST",
      headers: { "idempotency-key": key, ...headers },
      body: "{}",
    });
    const isReplayed = response.headers.get("idempotent-replayed") === "true";
    return { status: response.status, isReplayed, body: await response.text() };
  }

  /** Repeats a charge while another request holds its key. */
  async chargeUntilFree(key: string): Promise<ChargeResult> {
    for (;;) {
      const result = await this.charge(key);
      if (result.status !== 409) return result;
    }
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** Ends the pauses of its requests. */
  goOn(): void {
    this.#child.stdin?.write("\n");
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}
