/**
 * Confirm: before many things are changed at once, a person types how many. Who cannot be asked
 * must say --yes.
 */
import { isCancel, text } from "@clack/prompts";
import { RedriveError } from "@redrive/core";
import { counted } from "@redrive/simulator/words";
import type { Terminal } from "../print/terminal.ts";

export interface Confirmation {
  /** What will happen, as in "discard". */
  readonly verb: string;
  readonly noun: string;
  readonly count: number;
  readonly yes?: boolean | undefined;
}

/** False if the person left or typed another number; throws if nobody can be asked. */
export async function confirmChange(terminal: Terminal, what: Confirmation): Promise<boolean> {
  const { verb, noun, count, yes } = what;
  if (yes || count === 0) return true;
  if (!terminal.isInteractive) {
    const message = `this would ${verb} ${counted(count, noun)}: say --yes to do it, --dry-run to look first`;
    throw new RedriveError("INVALID_ARGUMENT", message);
  }
  const message = `This will ${verb} ${counted(count, noun)}. Type the number to go on.`;
  const typed = await text({ message });
  return !isCancel(typed) && typed.trim() === String(count);
}
