/** Tests how suggestions are asked for, and how the arrow keys move through them. */
import { virtualClock } from "@redrive/core";
import { expect, test } from "vitest";
import { nextMark, type Suggestion, SuggestionRequests } from "./filter-form.tsx";

test("the mark goes around the ends, and starts at either end", () => {
  expect(nextMark(-1, 1, 3)).toBe(0);
  expect(nextMark(-1, -1, 3)).toBe(2);
  expect(nextMark(2, 1, 3)).toBe(0);
  expect(nextMark(0, -1, 3)).toBe(2);
  expect(nextMark(0, 1, 1)).toBe(0);
});

const turn = () => new Promise((resolve) => setImmediate(resolve));
const listOf = (value: string): readonly Suggestion[] => [{ value, count: 1 }];

function open(suggest: (text: string) => Promise<readonly Suggestion[]>) {
  const clock = virtualClock(0);
  const requests = new SuggestionRequests(clock, suggest);
  const found: string[] = [];
  requests.onFound = (list) => found.push(list.map(({ value }) => value).join() || "none");
  return { clock, requests, found };
}

test("texts that are typed while a request runs are skipped, except for the last", async () => {
  const asked: string[] = [];
  const answers: (() => void)[] = [];
  const { requests, found } = open((text) => {
    asked.push(text);
    return new Promise((resolve) => answers.push(() => resolve(listOf(text))));
  });
  for (const text of ["a", "ab", "abc"]) requests.start(text);
  answers[0]?.();
  await turn();
  answers[1]?.();
  await turn();
  expect([asked, found]).toEqual([["a", "abc"], ["abc"]]);
});

test("a function that throws, and a request that fails, leave the next one alone", async () => {
  const { requests, found } = open((text) => {
    if (text === "throws") throw new Error("broken");
    return text === "fails" ? Promise.reject(new Error("no")) : Promise.resolve(listOf(text));
  });
  for (const text of ["throws", "fails", "works"]) {
    requests.start(text);
    await turn();
  }
  expect(found).toEqual(["none", "none", "works"]);
});

test("a request without an end holds up the next one for five seconds", async () => {
  const { clock, requests, found } = open((text) =>
    text === "hangs" ? new Promise(() => {}) : Promise.resolve(listOf(text)),
  );
  requests.start("hangs");
  requests.start("works");
  await clock.advance(4999);
  await turn();
  expect(found).toEqual([]);
  await clock.advance(1);
  await turn();
  expect(found).toEqual(["works"]);
});

test("what follows a running request is asked of the newest function", async () => {
  let answer = () => {};
  const { requests, found } = open(
    () => new Promise((resolve) => (answer = () => resolve(listOf("old")))),
  );
  requests.start("a");
  requests.suggest = (text) => Promise.resolve(listOf(`new ${text}`));
  requests.start("b");
  answer();
  await turn();
  expect(found).toEqual(["new b"]);
});
