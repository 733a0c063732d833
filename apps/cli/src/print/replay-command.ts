/**
 * Again: the line that tells the seed and the command that repeats the run, so that whatever a
 * reader sees, they can see once more.
 */
import type { Terminal } from "./terminal.ts";

export function replayCommandLines(
  { args: words, paint, width }: Pick<Terminal, "args" | "paint" | "width">,
  seed: number | string,
): readonly string[] {
  const command = argsWithSeed(words, seed).map(quoteForShell).join(" ");
  const told = `seed ${seed}`;
  const again = `again: redrive ${command}`;
  if (`${told}   ${again}`.length <= width) {
    return [`${paint("strong", told)}   ${paint("faint", again)}`];
  }
  return [paint("strong", told), paint("faint", again)];
}

/** The words of the command with this seed, wherever they had one or none. */
export function argsWithSeed(words: readonly string[], seed: number | string): readonly string[] {
  const hasSeed = words.some((word) => word === "--seed" || word.startsWith("--seed="));
  return hasSeed ? words : [...words, "--seed", String(seed)];
}

/** A word as a POSIX shell takes it. */
function quoteForShell(word: string): string {
  return /^[\w@%+=:,./-]+$/u.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
