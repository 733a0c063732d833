/** Tests that a full page follows short and empty pages, and asks for no more than it needs. */
import { expect, it } from "vitest";
import type { TaskList, TaskView } from "../schemas/task-schemas.ts";
import { fullPage, type PagePosition } from "./client.ts";

/** A list of numbers. `sizes`: how many tasks each page has at most. */
function listOf(total: number, sizes: readonly number[]) {
  const asked: PagePosition[] = [];
  const list = async (query: PagePosition): Promise<TaskList> => {
    const size = Math.min(sizes[asked.length] ?? 250, query.limit ?? 50);
    asked.push(query);
    const from = Number(query.cursor ?? 0);
    const to = Math.min(total, from + size);
    const ids = Array.from({ length: to - from }, (_, n) => `${from + n}`);
    const tasks = ids.map((taskId) => ({ taskId }) as TaskView);
    return { tasks, cursor: to === total ? null : `${to}` };
  };
  return { list, asked };
}

it("follows empty and short pages until the limit", async () => {
  const { list, asked } = listOf(100, [0, 3, 0, 4]);
  const page = await fullPage(list, { limit: 10 });
  expect(page.tasks.map(({ taskId }) => Number(taskId))).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(page.cursor).toBe("10");
  expect(asked.map(({ limit }) => limit)).toEqual([10, 10, 7, 7, 3]);
});

it("ends with the list, and needs one request for a full page", async () => {
  const short = listOf(5, [0, 2]);
  expect(await fullPage(short.list, {})).toMatchObject({ cursor: null, tasks: { length: 5 } });
  const full = listOf(100, []);
  expect((await fullPage(full.list, { limit: 10, cursor: "20" })).cursor).toBe("30");
  expect(full.asked).toHaveLength(1);
});
