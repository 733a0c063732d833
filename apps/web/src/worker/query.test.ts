/** Queries: results belong to the current input or are marked, and requests need a reader. */
import { effect, signal } from "@preact/signals";
import { expect, test } from "vitest";
import { createQuery, currentResult } from "./query.ts";

/** A query about a number, resolved by hand: lists the requests so far. */
function manualQuery() {
  const number = signal(1);
  const requests: { input: number; resolve(value: number): void; reject(why: string): void }[] = [];
  const query = createQuery(
    () => ({ number: number.value }),
    ({ number: input }) =>
      new Promise<number>((resolve, reject) => {
        requests.push({ input, resolve, reject: (why) => reject(new Error(why)) });
      }),
  );
  return { number, requests, query, watch: () => effect(() => void query.isBusy.value) };
}

const endOfTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

test("sends no request without a reader, and none twice for the same input", async () => {
  const { number, requests, query, watch } = manualQuery();
  number.value = 2;
  expect([requests.length, query.isBusy.value]).toEqual([0, true]);
  const unwatch = watch();
  requests[0]?.resolve(20);
  await endOfTurn();
  unwatch();
  watch()();
  expect(requests.map(({ input }) => input)).toEqual([2]);
  expect([query.value.value, query.isBusy.value]).toEqual([20, false]);
  number.value = 3;
  expect([requests.length, query.isBusy.value]).toEqual([1, true]);
  watch();
  expect(requests.map(({ input }) => input)).toEqual([2, 3]);
});

test("shows the result for an older input with that input, and stays busy", async () => {
  const { number, requests, query, watch } = manualQuery();
  watch();
  number.value = 2;
  requests[0]?.resolve(10);
  await endOfTurn();
  expect(query.latest.value).toEqual({ input: { number: 1 }, value: 10 });
  expect(query.isBusy.value).toBe(true);
  const present = currentResult(query);
  requests[1]?.resolve(20);
  expect(await present).toBe(20);
  expect(query.isBusy.value).toBe(false);
});

test("currentResult waits for an input that changed while it waited", async () => {
  const { number, requests, query } = manualQuery();
  const present = currentResult(query);
  number.value = 2;
  requests[0]?.resolve(10);
  await endOfTurn();
  number.value = 3;
  requests[1]?.resolve(20);
  await endOfTurn();
  requests[2]?.resolve(30);
  expect(await present).toBe(30);
});

test("a failed request clears the previous result and gives the reason", async () => {
  const { number, requests, query, watch } = manualQuery();
  watch();
  requests[0]?.resolve(10);
  await endOfTurn();
  number.value = 2;
  requests[1]?.reject("too many");
  await expect(currentResult(query)).rejects.toThrow("too many");
  expect([query.value.value, query.problem.value]).toEqual([undefined, "too many"]);
});

test("ignores the failure of an outdated request", async () => {
  const { number, requests, query, watch } = manualQuery();
  watch();
  number.value = 2;
  requests[0]?.reject("too many");
  requests[1]?.resolve(20);
  expect(await currentResult(query)).toBe(20);
  expect(query.problem.value).toBe("");
});
