/** Replay command: the first line of a random result, with the seed and the command that repeats it. */
import type { Terminal } from "./terminal.ts";

export function replayCommandLines(
  { args, paint, width }: Pick<Terminal, "args" | "paint" | "width">,
  seed: number | string,
): readonly string[] {
  const command = argsWithSeed(args, seed).map(quoteForShell).join(" ");
  const seedText = `seed ${seed}`;
  const replay = `repeat: redrive ${command}`;
  if (`${seedText}   ${replay}`.length <= width) {
    return [`${paint("strong", seedText)}   ${paint("faint", replay)}`];
  }
  return [paint("strong", seedText), paint("faint", replay)];
}

/** Returns the arguments with `--seed`, added only if it is missing. */
export function argsWithSeed(args: readonly string[], seed: number | string): readonly string[] {
  const hasSeed = args.some((arg) => arg === "--seed" || arg.startsWith("--seed="));
  return hasSeed ? args : [...args, "--seed", String(seed)];
}

/** Quotes an argument for a POSIX shell. */
function quoteForShell(arg: string): string {
  return /^[\w@%+=:,./-]+$/u.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`;
}
