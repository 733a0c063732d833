/**
 * Known messages: the states of messages that SQS will deliver again. SQS counts receives and keeps
 * nothing else with a message, so the states of the latest 10,000 are kept here. A message that
 * another process received, or that was forgotten, has only its count.
 */
import { setBounded } from "../../destination/bounded-map.ts";
import type { Message } from "../message.ts";
import { freshState, type MessageState } from "../message-state.ts";

interface Known {
  readonly state: MessageState;
  /** The receive count when the state was kept. */
  readonly receives: number;
}

export class KnownMessages {
  readonly #byId = new Map<string, Known>();

  keep(id: string, state: MessageState, receives: number): void {
    setBounded(this.#byId, id, { state, receives });
  }

  forget(id: string): void {
    this.#byId.delete(id);
  }

  /**
   * What is known about a message at its `receives`th receive. Without a state, every earlier receive
   * counts as an attempt. With one, the receives since then were lost.
   */
  read(id: string, receives: number, firstAt: number): Pick<Message, "state" | "deliveries"> {
    const known = this.#byId.get(id);
    if (known !== undefined && receives > known.receives) {
      return { state: known.state, deliveries: receives - known.receives };
    }
    return { state: { ...freshState(firstAt), attempts: Math.max(0, receives - 1) } };
  }
}
