/** Child: starts the embedding process, reads its output and kills it. */
import { fileURLToPath } from "node:url";
import { PrintingProcess } from "./printing-process.ts";

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

export class Child extends PrintingProcess {
  /** From the start of the process until it accepts tasks, by its own clock. */
  readyMs = Number.NaN;
  /** The part of that time in which it waited for a processor core. */
  waitedMs = Number.NaN;

  constructor(options: ChildOptions) {
    const { file, targetUrl, mode, from, count, callers, bodyBytes = 0, under = [] } = options;
    const args = [SCRIPT, file, targetUrl, mode, from, count, callers, bodyBytes].map(String);
    const [program = process.execPath, ...rest] = [...under, process.execPath, ...args];
    super(program, rest);
  }

  protected override read(line: string): void {
    if (line.startsWith("ready ")) [this.readyMs, this.waitedMs] = numbersOf(line.slice(6));
    super.read(line);
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
}

function numbersOf(text: string): [number, number] {
  const [first = Number.NaN, second = Number.NaN] = text.split(" ").map(Number);
  return [first, second];
}
