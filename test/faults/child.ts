/** Child: starts the embedding process, reads its output and kills it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("./embedded-child.mjs", import.meta.url));

export interface ChildOptions {
  readonly file: string;
  readonly targetUrl: string;
  readonly mode: "load" | "drain" | "store";
  readonly from: number;
  readonly count: number;
  readonly callers: number;
  /** Bodies are at least this long. */
  readonly bodyBytes?: number;
  /** A program to run it under, with its arguments. */
  readonly under?: readonly string[];
}

export class Child {
  readonly process: ChildProcess;
  readonly lines: string[] = [];
  readonly #waiting = new Map<string, () => void>();
  /** From the start of the process until it accepts tasks, by its own clock. */
  readyMs = Number.NaN;
  /** The part of that time in which it waited for a processor core. */
  waitedMs = Number.NaN;
  stderr = "";

  constructor(options: ChildOptions) {
    const { file, targetUrl, mode, from, count, callers, bodyBytes = 0, under = [] } = options;
    const args = [SCRIPT, file, targetUrl, mode, from, count, callers, bodyBytes].map(String);
    const [program = process.execPath, ...rest] = [...under, process.execPath, ...args];
    this.process = spawn(program, rest, { stdio: ["ignore", "pipe", "pipe"] });
    this.process.stderr?.on("data", (chunk: Buffer) => {
      this.stderr += chunk;
    });
    if (this.process.stdout === null) throw new Error("the child has no output");
    createInterface({ input: this.process.stdout }).on("line", (line) => this.#note(line));
  }

  #note(line: string): void {
    this.lines.push(line);
    if (line.startsWith("ready ")) [this.readyMs, this.waitedMs] = numbersOf(line.slice(6));
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
      this.process.once("exit", (code) => {
        reject(new Error(`the child ended with ${code} before "${text}": ${this.stderr}`));
      });
    });
  }

  /** Numbers and ids of the tasks that the process reported as stored. */
  acknowledged(): readonly (readonly [number, string])[] {
    return this.lines
      .filter((line) => line.startsWith("ack "))
      .map((line) => line.split(" "))
      .map(([, number = "", taskId = ""]) => [Number(number), taskId] as const);
  }

  /** Resolves once the process has reported this many tasks as stored, or has ended. */
  acknowledgedCount(count: number): Promise<void> {
    return new Promise((resolve) => {
      const check = () => {
        if (this.acknowledged().length < count && this.process.exitCode === null) return;
        this.process.stdout?.off("data", check);
        resolve();
      };
      this.process.stdout?.on("data", check);
      this.process.once("close", check);
      check();
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

function numbersOf(text: string): [number, number] {
  const [first = Number.NaN, second = Number.NaN] = text.split(" ").map(Number);
  return [first, second];
}
