/**
 * Conformance of stored documents, and of tasks that are created with the end of another task. A
 * part of `conformance.testing.ts`.
 */
import { describe, expect, it } from "vitest";
import type { StoredDocument } from "../model/document-table.ts";
import type { Store } from "../model/store.ts";
import type { NewTask } from "../model/task.ts";
import {
  batch,
  claimFirst,
  create,
  documentsOf,
  dueLanes,
  newTask,
  settle,
  T0,
  TENANT,
} from "./store.testing.ts";

const document: StoredDocument = {
  kind: "redrive",
  tenantId: TENANT,
  id: "b",
  version: 1,
  text: "{}",
};

export function documentConformance(open: () => Store): void {
  describe("documents", () => {
    it("writes a document only over the previous version", async () => {
      const { documents } = open();
      expect(await documents.put({ ...document, version: 2 })).toBe(false);
      expect(await documents.put(document)).toBe(true);
      expect(await documents.put({ ...document, text: "rival" })).toBe(false);
      expect(await documents.put({ ...document, version: 2, text: "next" })).toBe(true);
      expect(await documents.get("redrive", TENANT, "b")).toEqual({
        ...document,
        version: 2,
        text: "next",
      });
    });

    it("overwrites any version with the documents of a batch, and increments it", async () => {
      const store = open();
      const { version, ...bare } = document;
      await store.commit(batch({ documents: [bare] }));
      expect(await store.documents.get("redrive", TENANT, "b")).toEqual(document);
      await store.commit(
        batch({
          documents: [
            { ...bare, text: "next" },
            { ...bare, id: "c" },
          ],
        }),
      );
      expect(await documentsOf(store, "redrive")).toEqual([
        { ...document, version: version + 1, text: "next" },
        { ...document, id: "c" },
      ]);
      expect(await store.documents.put({ ...document, version: 3, text: "put" })).toBe(true);
    });

    it("separates kinds and tenants, and lists a kind by tenant and id, in pages", async () => {
      const { documents } = open();
      const others = [
        { ...document, id: "a", tenantId: "zeta" },
        { ...document, kind: "encryption" },
      ];
      for (const one of [document, ...others]) await documents.put(one);
      expect(await documentsOf(open(), "redrive")).toEqual([document, others[0]]);
      expect(await documents.get("redrive", "zeta", "b")).toBeNull();
      expect(await documents.remove("redrive", TENANT, "b")).toBe(true);
      expect(await documents.remove("redrive", TENANT, "b")).toBe(false);
      expect(await documentsOf(open(), "encryption")).toEqual([others[1]]);
    });
  });

  describe("tasks that follow an end", () => {
    const following = () => ({
      SUCCEEDED: [newTask({ destination: "hooks" }), newTask({ destination: "hooks" })],
      CANCELLED: [newTask({ destination: "hooks" })],
    });
    const statuses = (tasks: readonly NewTask[]) =>
      Promise.all(tasks.map(({ taskId }) => status(taskId)));
    const status = async (taskId: string) =>
      (await open().query.get(TENANT, taskId))?.status ?? "none";

    it("are created by a settle that ends the task, once, and are due", async () => {
      const store = open();
      await store.commit(batch({ creates: [create()] }));
      const [claim] = await claimFirst(store);
      if (claim === undefined) throw new Error("nothing was claimed");
      const onEnd = following();
      const done = settle(claim, { status: "SUCCEEDED", reason: "succeeded", onEnd });
      const { settles } = await store.commit(batch({ settles: [done, done] }));
      expect(settles).toEqual(["SUCCEEDED", "fenced"]);
      expect(await statuses(onEnd.SUCCEEDED)).toEqual(["PENDING", "PENDING"]);
      expect(await statuses(onEnd.CANCELLED)).toEqual(["none"]);
      expect(await dueLanes(store)).toMatchObject([{ destination: "hooks", dueAt: T0 }]);
      expect(await store.query.count(TENANT)).toEqual({ SUCCEEDED: 1, PENDING: 2 });
    });

    it("are not created while the task continues, and depend on how it really ends", async () => {
      const store = open();
      await store.commit(batch({ creates: [create()] }));
      const [claim] = await claimFirst(store);
      if (claim === undefined) throw new Error("nothing was claimed");
      const onEnd = following();
      await store.commit(batch({ cancels: [{ ...claim, onEnd }] }));
      expect(await statuses(onEnd.CANCELLED)).toEqual(["none"]);
      await store.commit(batch({ settles: [settle(claim, { onEnd })] }));
      expect(await statuses(onEnd.CANCELLED)).toEqual(["PENDING"]);
    });

    it("are created by the cancel that ends a waiting task, and not by a second one", async () => {
      const store = open();
      const { task } = create();
      await store.commit(batch({ creates: [{ task, fingerprint: null, claimVersion: null }] }));
      const [first, second] = [following(), following()];
      await store.commit(batch({ cancels: [{ ...task, onEnd: first }] }));
      await store.commit(batch({ cancels: [{ ...task, onEnd: second }] }));
      expect(await statuses(first.CANCELLED)).toEqual(["PENDING"]);
      expect(await statuses(second.CANCELLED)).toEqual(["none"]);
    });
  });
}
