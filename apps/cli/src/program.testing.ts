/** Program testing: runs a command in this process on a fake terminal that records its output. */

import { program } from "./program.ts";
import { plainPaint, type Terminal } from "./terminal/terminal.ts";

export interface Written {
  out: string;
  err: string;
  code: number | undefined;
}

export function fakeTerminal(
  args: readonly string[] = [],
  over: Partial<Terminal> = {},
): { readonly terminal: Terminal; readonly written: Written } {
  const written: Written = { out: "", err: "", code: undefined };
  const terminal: Terminal = {
    width: 80,
    paint: plainPaint,
    isInteractive: false,
    showsProgress: false,
    args,
    pagesUrl: "http://127.0.0.1:7337/ui/",
    print: (text) => {
      written.out += text;
    },
    printMore: async (text) => {
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

/** Runs `redrive` with these arguments. Only for usage that commander itself accepts. */
export async function redrive(line: string, over: Partial<Terminal> = {}): Promise<Written> {
  const args = line.split(" ").filter((arg) => arg !== "");
  const { terminal, written } = fakeTerminal(args, over);
  await program(terminal).parseAsync(args, { from: "user" });
  return written;
}

/** Runs a command with `--json` and parses the output. */
export async function redriveJson<T>(line: string): Promise<T> {
  return JSON.parse((await redrive(`${line} --json`)).out) as T;
}
