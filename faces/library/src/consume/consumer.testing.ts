/** Fixture of the tests of consumers: a consumer on virtual time, and a broker that delivers until the end. */

import { START_AT, world } from "../call/world.testing.ts";
import { destination } from "../destination/destination.ts";
import { type ConsumeOptions, consume } from "./consume.ts";
import type {
  ConsumeEvent,
  Disposition,
  Message,
  MessageHandler,
  MessageState,
} from "./message.ts";

export function setup(handler: MessageHandler<unknown>, options: ConsumeOptions = {}) {
  const { clock, random } = world();
  const events: ConsumeEvent[] = [];
  const wiring = options.destination === undefined ? { clock } : {};
  const onEvent = (event: ConsumeEvent) => void events.push(event);
  const consumer = consume(handler, { random, onEvent, ...wiring, ...options });
  return { consumer, clock, random, events };
}

export function message(id: string, more: Partial<Message> = {}): Message {
  return { id, body: {}, ...more };
}

/** Delivers a message until it is done, as a broker would. Returns all dispositions. */
export async function deliver(
  { consumer, clock }: Pick<ReturnType<typeof setup>, "consumer" | "clock">,
  id = "m1",
): Promise<Disposition[]> {
  const all: Disposition[] = [];
  let state: Message["state"];
  for (;;) {
    const last = await consumer.handle(message(id, { state }));
    all.push(last);
    if (last.kind === "ack" || last.kind === "dead-letter") return all;
    state = last.state;
    await clock.advance(last.delayMs);
  }
}

export const kinds = (all: readonly Disposition[]) => all.map(({ kind }) => kind);

/** The state of a message that has not been delivered. */
export const START: MessageState = {
  attempts: 0,
  startedAt: START_AT,
  previousDelayMs: 0,
  isThrottled: false,
  lost: 0,
  history: [],
};

/** A destination on virtual time. */
export function guardedShop(document: object) {
  const { clock, random } = world();
  return { clock, shop: destination("shop", { clock, random, ...document }) };
}
