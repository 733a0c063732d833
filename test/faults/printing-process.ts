/**
 * Printing process: starts a process, reads the lines that it prints, and kills it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export class PrintingProcess {
  readonly process: ChildProcess;
  readonly lines: string[] = [];
  readonly #waiting = new Map<string, () => void>();
  stderr = "";

  constructor(program: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env) {
    this.process = spawn(program, [...args], { stdio: ["ignore", "pipe", "pipe"], env });
    this.process.stderr?.on("data", (chunk: Buffer) => {
      this.stderr += chunk;
    });
    if (this.process.stdout === null) throw new Error("the process has no output");
    createInterface({ input: this.process.stdout }).on("line", (line) => this.read(line));
  }

  protected read(line: string): void {
    this.lines.push(line);
    const word = line.split(" ")[0] ?? "";
    this.#waiting.get(line)?.();
    this.#waiting.get(word)?.();
  }

  /** Resolves when that line, or a line that begins with that word, is printed. */
  said(text: string): Promise<void> {
    if (this.lines.some((line) => line === text || line.split(" ")[0] === text)) {
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      this.#waiting.set(text, resolve);
      const fail = () => {
        const { exitCode } = this.process;
        reject(new Error(`the process ended with ${exitCode} before "${text}": ${this.stderr}`));
      };
      if (this.process.exitCode === null) this.process.once("close", fail);
      else fail();
    });
  }

  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = once(this.process, "close");
    this.process.kill("SIGKILL");
    await gone;
  }

  /** The exit code; null if a signal ended it. */
  async ended(): Promise<number | null> {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      await once(this.process, "close");
    }
    return this.process.exitCode;
  }
}
