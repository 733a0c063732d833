/** Screen testing: a screen that keeps what was written, and a whole command run on it. */

import { plainPaint } from "./print/paint.ts";
import type { Terminal } from "./print/terminal.ts";
import { program } from "./program.ts";

export interface Written {
  out: string;
  err: string;
  code: number | undefined;
}

export function fakeTerminal(
  words: readonly string[] = [],
  over: Partial<Terminal> = {},
): { readonly terminal: Terminal; readonly written: Written } {
  const written: Written = { out: "", err: "", code: undefined };
  const terminal: Terminal = {
    width: 80,
    paint: plainPaint,
    isInteractive: false,
    showsProgress: false,
    args: words,
    pagesUrl: "http://127.0.0.1:7337/ui/",
    print: (text) => {
      written.out += text;
    },
    printError: (text) => {
      written.err += text;
    },
    setExitCode: (code) => {
      written.code = code;
    },
    ...over,
  };
  return { terminal, written };
}

/** Runs `redrive` with these words in this process. Only for uses that commander itself accepts. */
export async function redrive(line: string, over: Partial<Terminal> = {}): Promise<Written> {
  const words = line.split(" ").filter((word) => word !== "");
  const { terminal, written } = fakeTerminal(words, over);
  await program(terminal).parseAsync(words, { from: "user" });
  return written;
}

/** The same with `--json`, read. */
export async function redriveJson<T>(line: string): Promise<T> {
  return JSON.parse((await redrive(`${line} --json`)).out) as T;
}
