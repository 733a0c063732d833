/** Tests that a selection is exactly the ids that were listed or clicked. */
import { expect, test } from "vitest";
import { freeze, type ListIds, MAX_SELECTED, NOTHING, withRows } from "./selection.ts";

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
