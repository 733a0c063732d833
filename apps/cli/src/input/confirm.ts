/**
 * Confirm: before a command changes many items, the user types how many. Without a terminal, the
 * command needs --yes.
 */
import { isCancel, text } from "@clack/prompts";
import { formatCount, RedriveError } from "@redrive/core";
import type { Terminal } from "../print/terminal.ts";

export interface Confirmation {
  /** The operation, such as "discard". */
  readonly verb: string;
  readonly noun: string;
  readonly count: number;
  readonly yes?: boolean | undefined;
}

/** False if the user canceled or typed another number. Throws if there is no terminal to ask on. */
export async function confirmChange(terminal: Terminal, what: Confirmation): Promise<boolean> {
  const { verb, noun, count, yes } = what;
  if (yes || count === 0) return true;
  if (!terminal.isInteractive) {
    const message = `this would ${verb} ${formatCount(count, noun)}: confirm with --yes, or count with --dry-run`;
    throw new RedriveError("INVALID_ARGUMENT", message);
  }
  const message = `This will ${verb} ${formatCount(count, noun)}. Type the number to continue.`;
  const typed = await text({ message });
  return !isCancel(typed) && typed.trim() === String(count);
}
