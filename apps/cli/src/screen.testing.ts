/** Screen testing: a screen that keeps what was written, and a whole command run on it. */
import { program } from "./program.ts";
import type { Screen } from "./screen.ts";
import { plainPaint } from "./terminal/paint.ts";

export interface Written {
  out: string;
  err: string;
  code: number | undefined;
}

export function fakeScreen(
  words: readonly string[] = [],
  over: Partial<Screen> = {},
): { readonly screen: Screen; readonly written: Written } {
  const written: Written = { out: "", err: "", code: undefined };
  const screen: Screen = {
    width: 80,
    paint: plainPaint,
    isInteractive: false,
    isWatched: false,
    words,
    pagesUrl: "http://127.0.0.1:7337/ui/",
    print: (text) => {
      written.out += text;
    },
    note: (text) => {
      written.err += text;
    },
    end: (code) => {
      written.code = code;
    },
    ...over,
  };
  return { screen, written };
}

/** Runs `redrive` with these words in this process. Only for uses that commander itself accepts. */
export async function redrive(line: string, over: Partial<Screen> = {}): Promise<Written> {
  const words = line.split(" ").filter((word) => word !== "");
  const { screen, written } = fakeScreen(words, over);
  await program(screen).parseAsync(words, { from: "user" });
  return written;
}

/** The same with `--json`, read. */
export async function redriveJson<T>(line: string): Promise<T> {
  return JSON.parse((await redrive(`${line} --json`)).out) as T;
}
