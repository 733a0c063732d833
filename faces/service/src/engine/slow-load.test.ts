/** Tests that a load of due lanes which does not end stops no new task. */
import { expect, it } from "vitest";
import { setup } from "./engine.testing.ts";

it("a new task is sent when it is due, although a load takes longer than the horizon", async () => {
  const { clock, store, sent, enqueue } = await setup();
  store.dueLanes = () => new Promise(() => {});
  await clock.advance(30 * 60_000);
  const dueAt = clock.now() + 5000;
  enqueue({ scheduledAt: dueAt });
  await clock.advance(6000);
  expect(sent.map(({ at }) => at)).toEqual([dueAt]);
});
