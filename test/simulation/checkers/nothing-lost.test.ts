/** Tests of the checker itself: a task may be gone when its create is acknowledged, if it has ended. */
import { describe, expect, it } from "vitest";
import type { Committed } from "../history.ts";
import { nothingLost } from "./nothing-lost.ts";

/** The client learns that its task was created, and the task is not stored any more. */
function acknowledge(settled: "SUCCEEDED" | "PENDING") {
  const checker = nothingLost();
  const batch = { settles: [{ taskId: "task-1" }], cancels: [] };
  const commit = { at: 0, batch, result: { settles: [settled] } };
  checker.committed?.(commit as unknown as Committed);
  const created = { kind: "created", started: null, row: null } as const;
  return () => checker.createAcknowledged?.("task-1", undefined, null, created);
}

describe("an acknowledged task that is not stored", () => {
  it("was removed by retention if it has ended", () => {
    expect(acknowledge("SUCCEEDED")).not.toThrow();
  });

  it("is lost if it has not ended", () => {
    expect(acknowledge("PENDING")).toThrow("nothing lost: task-1 was acknowledged");
  });
});
