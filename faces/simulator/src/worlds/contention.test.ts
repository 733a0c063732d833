/** Contention: writers that give up say why. */
import { expect, it } from "vitest";
import { simulate } from "../simulate/simulate.ts";

it("loses writers by the limit that ended them", () => {
  const reasonsOf = (policy: object) =>
    simulate({ world: "CONTENTION", clientCount: 50, policy }).reasons;
  expect(Object.keys(reasonsOf({ totalBudgetMs: 300, maxAttempts: 500 }))).toEqual(["budget"]);
  expect(Object.keys(reasonsOf({ maxAttempts: 2 }))).toEqual(["attempts"]);
});
