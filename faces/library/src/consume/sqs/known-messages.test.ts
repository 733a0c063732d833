/** Tests of what is known about a message of SQS, which keeps only a count. */
import { expect, test } from "vitest";
import { freshState } from "../message-state.ts";
import { KnownMessages } from "./known-messages.ts";

const state = { ...freshState(5), attempts: 2, lost: 0 };

test("a message that nobody knows has its receives as attempts", () => {
  const known = new KnownMessages();
  expect(known.read("a", 1, 9)).toEqual({ state: freshState(9) });
  expect(known.read("a", 4, 9)).toEqual({ state: { ...freshState(9), attempts: 3 } });
});

test("a message that comes back has its state, and a deferral is not an attempt", () => {
  const known = new KnownMessages();
  known.keep("a", state, 6);
  expect(known.read("a", 7, 9)).toEqual({ state, deliveries: 1 });
});

test("receives since then were lost", () => {
  const known = new KnownMessages();
  known.keep("a", state, 6);
  expect(known.read("a", 9, 9)).toEqual({ state, deliveries: 3 });
});

test("a count that went back is a new message with the same id", () => {
  const known = new KnownMessages();
  known.keep("a", state, 6);
  expect(known.read("a", 1, 9)).toEqual({ state: freshState(9) });
});

test("a forgotten message is not known", () => {
  const known = new KnownMessages();
  known.keep("a", state, 1);
  known.forget("a");
  expect(known.read("a", 2, 9)).toEqual({ state: { ...freshState(9), attempts: 1 } });
});
