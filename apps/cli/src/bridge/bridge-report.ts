/**
 * Bridge report: what a running bridge prints. It prints changes: the first failure and the recovery,
 * not every message.
 */
import { formatCount, quote } from "@redrive/core";
import type { ConsumeEvent } from "redrive/consume";
import type { Terminal } from "../print/terminal.ts";

export class BridgeReport {
  readonly #terminal: Terminal;

  // Mutable state.
  #tasks = 0;
  #deadLetters = 0;
  #isFailing = false;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  readonly onEvent = (event: ConsumeEvent): void => {
    switch (event.type) {
      case "handled":
        this.#tasks++;
        if (this.#isFailing) this.#say("the service accepts tasks again");
        this.#isFailing = false;
        break;
      case "retry":
        if (!this.#isFailing) {
          this.#say(`no task was created: ${textOf(event.error)}; messages wait at the broker`);
        }
        this.#isFailing = true;
        break;
      case "dead-letter":
        this.#deadLetters++;
        this.#say(`message ${quote(event.id)} is a dead letter: ${textOf(event.error)}`);
        break;
      case "broker-failed":
        this.#say(`the broker failed: ${textOf(event.error)}; next try in ${event.delayMs} ms`);
        break;
      case "broker-recovered":
        this.#say("the broker works again");
        break;
      default:
    }
  };

  /** One line for the end. */
  summary(): string {
    const tasks = formatCount(this.#tasks, "task");
    const deadLetters = formatCount(this.#deadLetters, "dead letter");
    return `${tasks} created, ${deadLetters}`;
  }

  #say(text: string): void {
    this.#terminal.printError(`${text}\n`);
  }
}

/** `fetch failed` alone says nothing; its cause does. */
export function textOf(error: unknown): string {
  if (!(error instanceof Error)) return quote(error);
  const { cause } = error;
  return cause instanceof Error ? `${ownText(error)} (${ownText(cause)})` : ownText(error);
}

/** The error for a name with several addresses has only a code. */
function ownText(error: Error): string {
  return error.message || (error as NodeJS.ErrnoException).code || error.name;
}
