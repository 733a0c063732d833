/** Tests of the queue of a busy server, against a model with plain lists. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { AttemptQueue, type QueuedAttempt } from "./attempt-queue.ts";

function queueOf(max: number, ...names: readonly string[]): AttemptQueue<string> {
  const queue = new AttemptQueue<string>(max);
  for (const name of names) queue.join(name, name.startsWith("retry"));
  return queue;
}

function drain(queue: AttemptQueue<string>): string[] {
  const served: string[] = [];
  for (let next = queue.peek(); next !== undefined; next = queue.peek()) {
    queue.serve(next);
    served.push(next.value);
  }
  return served;
}

test("first attempts go before retries, each in order of arrival", () => {
  expect(drain(queueOf(9, "retry 1", "first 1", "retry 2", "first 2"))).toEqual([
    "first 1",
    "first 2",
    "retry 1",
    "retry 2",
  ]);
});

test("a first attempt takes the place of the newest retry in a full queue", () => {
  const queue = queueOf(3, "retry 1", "first 1", "retry 2");
  expect(queue.join("first 2", false)).toBeDefined();
  expect(queue.displaced).toBe("retry 2");
  expect(queue.join("retry 3", true)).toBeUndefined();
  expect(queue.displaced).toBeUndefined();
  expect(drain(queue)).toEqual(["first 1", "first 2", "retry 1"]);
});

test("a queue full of first attempts takes nothing", () => {
  const queue = queueOf(2, "first 1", "first 2");
  expect([queue.join("first 3", false), queue.join("retry 1", true)]).toEqual([
    undefined,
    undefined,
  ]);
});

test("one in ten is a retry, however many first attempts wait", () => {
  const firsts = Array.from({ length: 40 }, (_, n) => `first ${n}`);
  const served = drain(queueOf(99, "retry 1", "retry 2", "retry 3", ...firsts));
  expect(served.indexOf("retry 1")).toBe(9);
  expect(served.indexOf("retry 2")).toBe(19);
  expect(served.indexOf("retry 3")).toBe(29);
});

test("how many are ahead", () => {
  const queue = queueOf(9, "retry 1", "first 1", "retry 2");
  expect([queue.ahead(false), queue.ahead(true)]).toEqual([1, 3]);
});

test("is never longer than its limit, and loses nobody", () => {
  const step = fc.constantFrom("first", "retry", "serve", "leave" as const);
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 5 }), fc.array(step, { maxLength: 60 }), (max, steps) => {
      const queue = new AttemptQueue<number>(max);
      const waiting = new Map<number, QueuedAttempt<number>>();
      let count = 0;
      for (const one of steps) {
        if (one === "serve") {
          const next = queue.peek();
          if (next !== undefined) {
            queue.serve(next);
            expect(waiting.delete(next.value)).toBe(true);
          }
        } else if (one === "leave") {
          const [first] = waiting.values();
          if (first !== undefined) {
            queue.remove(first);
            queue.remove(first);
            waiting.delete(first.value);
          }
        } else {
          const entry = queue.join(++count, one === "retry");
          if (queue.displaced !== undefined) waiting.delete(queue.displaced);
          if (entry !== undefined) waiting.set(count, entry);
        }
        expect(queue.size).toBe(waiting.size);
        expect(queue.size).toBeLessThanOrEqual(max);
        expect(queue.peek() === undefined).toBe(queue.size === 0);
      }
    }),
  );
});
