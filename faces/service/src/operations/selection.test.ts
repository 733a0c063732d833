/** Tests of the number of tasks that match a filter, on a real store. */
import { beforeEach, describe, expect, it } from "vitest";
import type { Store } from "../model/store.ts";
import type { TaskFilter } from "../model/task-query.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { batch, create, DESTINATION, TENANT } from "../stores/store.testing.ts";
import { countTasks } from "./selection.ts";

const { signal } = new AbortController();
let store: Store;

beforeEach(async () => {
  store = memoryStore();
  const labeled = [create({ labels: { region: "eu" } }), create({ labels: { region: "us" } })];
  const elsewhere = [create({ destination: "other" }), create({ tenantId: "zeta" })];
  await store.commit(batch({ creates: [...labeled, ...elsewhere] }));
  await store.commit(batch({ cancels: [labeled[1]!.task] }));
});

const counted = (filter: TaskFilter, isOver = () => false) =>
  countTasks(store.query, TENANT, filter, { signal, isOver });

describe("the number of tasks", () => {
  it.each<[string, TaskFilter, number]>([
    ["all", {}, 3],
    ["a status", { status: "PENDING" }, 2],
    ["a destination", { destination: DESTINATION }, 2],
    ["a destination and a status", { destination: DESTINATION, status: "CANCELLED" }, 1],
    ["a label", { label: { name: "region", value: "eu" } }, 1],
    ["a label and a status", { label: { name: "region", value: "us" }, status: "PENDING" }, 0],
    ["an unknown destination", { destination: "none" }, 0],
  ])("of %s is exact", async (_what, filter, count) => {
    expect(await counted(filter)).toEqual({ count, complete: true });
  });

  it("is incomplete when the time is over before the last page", async () => {
    const creates = Array.from({ length: MANY }, () => create({ labels: { batch: "1" } }));
    await store.commit(batch({ creates }));
    const filter: TaskFilter = { label: { name: "batch", value: "1" } };
    expect(await counted(filter)).toEqual({ count: MANY, complete: true });
    const { count, complete } = await counted(filter, () => true);
    expect(complete).toBe(false);
    expect(count).toBeLessThan(MANY);
  });
});

/** More than one page of ids. */
const MANY = 12_000;
