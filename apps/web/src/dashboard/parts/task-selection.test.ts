/** Tests that filters survive the way to the address, and that a selection stays what it was. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { EventView } from "./client.ts";
import {
  apiFilter,
  filterNames,
  filterProblem,
  filtersOf,
  freeze,
  type ListIds,
  MAX_SELECTED,
  NOTHING,
  startsToMatch,
  withRows,
} from "./task-selection.ts";

const none = filtersOf({});
const event = (fields: Partial<EventView>): EventView => ({
  id: "n-1",
  at: 1,
  type: "task.created",
  taskId: "t",
  destination: "pay",
  ...fields,
});

test("filters survive the way to the address and back", () => {
  const filters = fc.record(
    Object.fromEntries(filterNames.map((name) => [name, fc.string()])) as Record<
      (typeof filterNames)[number],
      fc.Arbitrary<string>
    >,
  );
  fc.assert(
    fc.property(filters, (given) => {
      const address = new URLSearchParams(given).toString();
      expect(filtersOf(Object.fromEntries(new URLSearchParams(address)))).toEqual(given);
    }),
  );
});

test("the filter of the API has only the given fields, under the names of the API", () => {
  const filters = filtersOf({ key: "order-1", lastStatus: "503", cursor: "x", policy: "webhook" });
  expect(apiFilter(filters, 5000)).toEqual({
    idempotencyKey: "order-1",
    policyId: "webhook",
    lastStatus: 503,
  });
  expect(apiFilter(none, 5000)).toEqual({});
});

test("an age is relative to now, and never widens an absolute range", () => {
  const now = 10_000_000;
  expect(apiFilter(filtersOf({ age: "15m" }), now)).toEqual({ createdFrom: now - 900_000 });
  expect(apiFilter(filtersOf({ age: "15m", createdFrom: "9999999" }), now)).toEqual({
    createdFrom: 9_999_999,
  });
  expect(apiFilter(filtersOf({ createdTo: "7", redriven: "false" }), now)).toEqual({
    createdTo: 7,
    redriven: false,
  });
});

test.each([
  [{ status: "DEAD" }, "DEAD"],
  [{ label: "team" }, "name=value"],
  [{ lastStatus: "5xx" }, "5xx"],
  [{ age: "2y" }, "2y"],
  [{ redriven: "no" }, "no"],
  [{ createdFrom: "yesterday" }, "yesterday"],
])("a bad filter is explained: %j", (query, text) => {
  expect(filterProblem(filtersOf(query))).toContain(text);
  expect(filterProblem(none)).toBe("");
});

test("a created task counts as new if it matches every filter that an event can show", () => {
  expect(startsToMatch(event({}), none)).toBe(true);
  expect(startsToMatch(event({}), filtersOf({ destination: "crm" }))).toBe(false);
  const labeled = filtersOf({ label: "team=a=b" });
  expect(startsToMatch(event({ labels: { team: "a=b" } }), labeled)).toBe(true);
  expect(startsToMatch(event({ labels: { team: "a" } }), labeled)).toBe(false);
  expect(startsToMatch(event({}), filtersOf({ key: "k" }))).toBe(false);
});

test("with a status, a task counts as new when it gets that status", () => {
  const dead = filtersOf({ status: "EXHAUSTED", reason: "attempts" });
  const ended = event({ type: "task.exhausted", reason: "attempts" });
  expect(startsToMatch(ended, dead)).toBe(true);
  expect(startsToMatch({ ...ended, reason: "terminal" }, dead)).toBe(false);
  expect(startsToMatch(event({}), dead)).toBe(false);
});

const pages =
  (...lists: readonly (readonly string[])[]): ListIds =>
  async ({ cursor }) => {
    const index = Number(cursor ?? 0);
    const isLast = index === lists.length - 1;
    return { taskIds: lists[index] ?? [], cursor: isLast ? null : String(index + 1) };
  };

test("rows are added and removed one by one and by page", () => {
  let selection = withRows(NOTHING, ["a", "b"], true);
  selection = withRows(selection, ["b", "c"], true);
  selection = withRows(selection, ["a"], false);
  expect([...selection.ids]).toEqual(["b", "c"]);
});

test("everything that matches is listed over short and empty pages, and then frozen", async () => {
  const seen: number[] = [];
  const frozen = await freeze(pages(["a"], [], ["b", "c"]), {}, 7, (count) => seen.push(count) > 0);
  expect([...(frozen?.ids ?? [])]).toEqual(["a", "b", "c"]);
  expect(frozen).toMatchObject({ frozenAt: 7, isComplete: true, isWhole: true });
  expect(seen).toEqual([1, 1, 3]);
  // A row that is added by hand was not part of the frozen set.
  expect(withRows(frozen ?? NOTHING, ["d"], true).frozenAt).toBeUndefined();
  const fewer = withRows(frozen ?? NOTHING, ["a"], false);
  expect(fewer).toMatchObject({ frozenAt: 7, isWhole: false });
});

test("a list that was stopped selects nothing, and a list that is too long says so", async () => {
  expect(await freeze(pages(["a"], ["b"]), {}, 7, () => false)).toBeUndefined();
  const many = Array.from({ length: MAX_SELECTED + 5 }, (_, n) => `t${n}`);
  const frozen = await freeze(pages(many, ["more"]), {}, 7, () => true);
  expect(frozen?.ids.size).toBe(MAX_SELECTED);
  expect(frozen?.isComplete).toBe(false);
});
