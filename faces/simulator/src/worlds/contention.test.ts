/** Contention: writers that give up have a reason. */
import { expect, it } from "vitest";
import { simulate } from "./simulate.ts";

it("counts lost writers by the limit that ended them", () => {
  const reasonsOf = (policy: object) =>
    simulate({ world: "CONTENTION", clientCount: 50, policy }).reasons;
  expect(Object.keys(reasonsOf({ totalBudgetMs: 300, maxAttempts: 500 }))).toEqual(["budget"]);
  expect(Object.keys(reasonsOf({ maxAttempts: 2 }))).toEqual(["attempts"]);
});
