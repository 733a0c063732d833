/** Tests that a poller sends one request at a time and loses no change. */
import { virtualClock } from "@redrive/core";
import { expect, test } from "vitest";
import { EVENT_DELAY_MS, Poller } from "./live.ts";

const flush = () => new Promise<void>((resolve) => setImmediate(resolve));

function setup() {
  const clock = virtualClock();
  const answers: ((value: number) => void)[] = [];
  const loaded: number[] = [];
  const poller = new Poller<number>({
    clock,
    everyMs: 5000,
    load: () => new Promise((resolve) => answers.push(resolve)),
    onLoaded: (value) => loaded.push(value),
    onFailed: () => {},
  });
  return { clock, answers, loaded, poller };
}

test("waits for the response before it asks again", async () => {
  const { clock, answers, loaded, poller } = setup();
  poller.request();
  await clock.advance(60_000);
  expect(answers).toHaveLength(1);
  answers[0]?.(7);
  await flush();
  expect(loaded).toEqual([7]);
  await clock.advance(5000);
  expect(answers).toHaveLength(2);
});

test("many changes cause one request, and a change during a request causes another", async () => {
  const { clock, answers, poller } = setup();
  for (let i = 0; i < 100; i++) poller.requestSoon();
  await clock.advance(EVENT_DELAY_MS);
  expect(answers).toHaveLength(1);
  poller.requestSoon();
  answers[0]?.(1);
  await flush();
  await clock.advance(EVENT_DELAY_MS);
  expect(answers).toHaveLength(2);
});

test("a stopped poller neither asks nor reports", async () => {
  const { clock, answers, loaded, poller } = setup();
  poller.request();
  poller.stop();
  answers[0]?.(1);
  await flush();
  await clock.advance(60_000);
  expect([loaded, answers.length]).toEqual([[], 1]);
});

test("a paused poller sends nothing until it is asked again", async () => {
  const { clock, answers, loaded, poller } = setup();
  poller.request();
  poller.pause();
  answers[0]?.(1);
  await flush();
  poller.requestSoon();
  await clock.advance(60_000);
  expect([loaded, answers.length]).toEqual([[1], 1]);
  poller.request();
  expect(answers).toHaveLength(2);
});
