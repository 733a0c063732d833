/** Answers: of the present question or marked, asked for only while somebody looks. */
import { effect, signal } from "@preact/signals";
import { expect, test } from "vitest";
import { createQuery, currentResult } from "./query.ts";

/** An answer about a number, given by hand: the questions so far, each with its ends. */
function byHand() {
  const number = signal(1);
  const asked: { question: number; give(value: number): void; refuse(why: string): void }[] = [];
  const answer = createQuery(
    () => ({ number: number.value }),
    ({ number: question }) =>
      new Promise<number>((resolve, reject) => {
        asked.push({ question, give: resolve, refuse: (why) => reject(new Error(why)) });
      }),
  );
  return { number, asked, answer, look: () => effect(() => void answer.isBusy.value) };
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

test("nothing is asked before somebody looks, nor while nobody does, nor twice", async () => {
  const { number, asked, answer, look } = byHand();
  number.value = 2;
  expect([asked.length, answer.isBusy.value]).toEqual([0, true]);
  const lookAway = look();
  asked[0]?.give(20);
  await turn();
  lookAway();
  look()();
  expect(asked.map(({ question }) => question)).toEqual([2]);
  expect([answer.value.value, answer.isBusy.value]).toEqual([20, false]);
  number.value = 3;
  expect([asked.length, answer.isBusy.value]).toEqual([1, true]);
  look();
  expect(asked.map(({ question }) => question)).toEqual([2, 3]);
});

test("the answer to an older question is shown with its question, and is not the present one", async () => {
  const { number, asked, answer, look } = byHand();
  look();
  number.value = 2;
  asked[0]?.give(10);
  await turn();
  expect(answer.latest.value).toEqual({ input: { number: 1 }, value: 10 });
  expect(answer.isBusy.value).toBe(true);
  const present = currentResult(answer);
  asked[1]?.give(20);
  expect(await present).toBe(20);
  expect(answer.isBusy.value).toBe(false);
});

test("what is given away waits for a question that came while it waited", async () => {
  const { number, asked, answer } = byHand();
  const present = currentResult(answer);
  number.value = 2;
  asked[0]?.give(10);
  await turn();
  number.value = 3;
  asked[1]?.give(20);
  await turn();
  asked[2]?.give(30);
  expect(await present).toBe(30);
});

test("a question without an answer leaves none of another, and says why", async () => {
  const { number, asked, answer, look } = byHand();
  look();
  asked[0]?.give(10);
  await turn();
  number.value = 2;
  asked[1]?.refuse("too many");
  await expect(currentResult(answer)).rejects.toThrow("too many");
  expect([answer.value.value, answer.problem.value]).toEqual([undefined, "too many"]);
});

test("the failure of a question that is past is nobody's", async () => {
  const { number, asked, answer, look } = byHand();
  look();
  number.value = 2;
  asked[0]?.refuse("too many");
  asked[1]?.give(20);
  expect(await currentResult(answer)).toBe(20);
  expect(answer.problem.value).toBe("");
});
