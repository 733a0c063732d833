/**
 * Confirm: before many things are changed at once, a person types how many. Who cannot be asked
 * must say --yes.
 */
import { isCancel, text } from "@clack/prompts";
import { formatCount, RedriveError } from "@redrive/core";
import type { Screen } from "./screen.ts";

export interface Confirmation {
  /** What will happen, as in "discard". */
  readonly verb: string;
  readonly noun: string;
  readonly count: number;
  readonly yes?: boolean | undefined;
}

/** False if the person left or typed another number; throws if nobody can be asked. */
export async function confirmed(screen: Screen, what: Confirmation): Promise<boolean> {
  const { verb, noun, count, yes } = what;
  if (yes || count === 0) return true;
  if (!screen.isInteractive) {
    const message = `this would ${verb} ${formatCount(count, noun)}: say --yes to do it, --dry-run to look first`;
    throw new RedriveError("INVALID_ARGUMENT", message);
  }
  const message = `This will ${verb} ${formatCount(count, noun)}. Type the number to go on.`;
  const typed = await text({ message });
  return !isCancel(typed) && typed.trim() === String(count);
}
