/** Tests that what is held is grouped by guard, and each destination counts once per guard. */
import { expect, test } from "vitest";
import { destinationWith } from "./destination.testing.ts";
import { holdGroups } from "./holds.ts";

const NOW = 1000;

test("groups by guard, with the waiting tasks and the earliest start", () => {
  const groups = holdGroups(
    [
      destinationWith({ name: "a", tasks: { PENDING: 3 }, pausedAt: 500 }),
      destinationWith({ name: "b", tasks: { PENDING: 4 }, breakerState: "OPEN", openUntil: 2000 }),
      destinationWith({
        name: "c",
        tasks: { PENDING: 5 },
        breakerState: "OPEN",
        openUntil: 2000,
        held: [
          { lane: "first", by: "circuit-open", sinceAt: 700 },
          { lane: "retry", by: "circuit-open", sinceAt: 600 },
          { lane: "retry", by: "retry-budget", sinceAt: 900 },
        ],
      }),
    ],
    NOW,
  );
  expect(groups).toEqual([
    { by: "circuit-open", destinations: ["b", "c"], waiting: 9, sinceAt: 600 },
    { by: "retry-budget", destinations: ["c"], waiting: 5, sinceAt: 900 },
    { by: "pause", destinations: ["a"], waiting: 3, sinceAt: 500 },
  ]);
});

test("a destination without waiting tasks holds nothing, and an old gate is open", () => {
  expect(holdGroups([destinationWith({ pausedAt: 1 })], NOW)).toEqual([]);
  const open = destinationWith({ tasks: { PENDING: 1 }, gateUntil: NOW, openUntil: NOW });
  expect(holdGroups([open], NOW)).toEqual([]);
});
