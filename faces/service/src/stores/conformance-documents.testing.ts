/**
 * Conformance of notes, and of tasks that follow on the end of others.
 */
import { describe, expect, it } from "vitest";
import type { StoredDocument } from "../model/document-table.ts";
import type { Store } from "../model/store.ts";
import { batch, claimFirst, create, newTask, settle, T0, TENANT } from "./store.testing.ts";

const note: StoredDocument = { kind: "redrive", tenantId: TENANT, id: "b", version: 1, text: "{}" };

export function noteConformance(open: () => Store): void {
  describe("notes", () => {
    it("writes a note only over the version before it", async () => {
      const { documents: notes } = open();
      expect(await notes.put({ ...note, version: 2 })).toBe(false);
      expect(await notes.put(note)).toBe(true);
      expect(await notes.put({ ...note, text: "rival" })).toBe(false);
      expect(await notes.put({ ...note, version: 2, text: "next" })).toBe(true);
      expect(await notes.get("redrive", TENANT, "b")).toEqual({
        ...note,
        version: 2,
        text: "next",
      });
    });

    it("writes those of a batch over whatever stands, one version on", async () => {
      const store = open();
      const { version, ...bare } = note;
      await store.commit(batch({ documents: [bare] }));
      expect(await store.documents.get("redrive", TENANT, "b")).toEqual(note);
      await store.commit(
        batch({
          documents: [
            { ...bare, text: "next" },
            { ...bare, id: "c" },
          ],
        }),
      );
      expect(await store.documents.list("redrive")).toEqual([
        { ...note, version: version + 1, text: "next" },
        { ...note, id: "c" },
      ]);
      expect(await store.documents.put({ ...note, version: 3, text: "put" })).toBe(true);
    });

    it("keeps kinds and tenants apart, and lists a kind by id", async () => {
      const { documents: notes } = open();
      const others = [
        { ...note, id: "a", tenantId: "zeta" },
        { ...note, kind: "encryption" },
      ];
      for (const one of [note, ...others]) await notes.put(one);
      expect(await notes.list("redrive")).toEqual([others[0], note]);
      expect(await notes.get("redrive", "zeta", "b")).toBeNull();
      expect(await notes.remove("redrive", TENANT, "b")).toBe(true);
      expect(await notes.remove("redrive", TENANT, "b")).toBe(false);
      expect(await notes.list("encryption")).toEqual([others[1]]);
    });
  });

  describe("tasks that follow on an end", () => {
    const following = () => ({
      SUCCEEDED: newTask({ destination: "hooks" }),
      CANCELLED: newTask({ destination: "hooks" }),
    });
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
      expect(await status(onEnd.SUCCEEDED.taskId)).toBe("PENDING");
      expect(await status(onEnd.CANCELLED.taskId)).toBe("none");
      expect(await store.nextDue()).toMatchObject([{ destination: "hooks", dueAt: T0 }]);
      expect(await store.query.count(TENANT)).toContainEqual({
        destination: "hooks",
        status: "PENDING",
        count: 1,
      });
    });

    it("are left out while the task goes on, and follow how it really ends", async () => {
      const store = open();
      await store.commit(batch({ creates: [create()] }));
      const [claim] = await claimFirst(store);
      if (claim === undefined) throw new Error("nothing was claimed");
      const onEnd = following();
      await store.commit(batch({ cancels: [{ ...claim, onEnd }] }));
      expect(await status(onEnd.CANCELLED.taskId)).toBe("none");
      await store.commit(batch({ settles: [settle(claim, { onEnd })] }));
      expect(await status(onEnd.CANCELLED.taskId)).toBe("PENDING");
    });

    it("are created by the cancel that ends a waiting task, and by no second one", async () => {
      const store = open();
      const { task } = create();
      await store.commit(batch({ creates: [{ task, fingerprint: null, claimVersion: null }] }));
      const [first, second] = [following(), following()];
      await store.commit(batch({ cancels: [{ ...task, onEnd: first }] }));
      await store.commit(batch({ cancels: [{ ...task, onEnd: second }] }));
      expect(await status(first.CANCELLED.taskId)).toBe("PENDING");
      expect(await status(second.CANCELLED.taskId)).toBe("none");
    });
  });
}
