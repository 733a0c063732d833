/** Tests of the callback of a task that ended without another attempt. */
import { expect, test } from "vitest";
import { expirationOf, releaseOf } from "../engine/run/settlement.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { batch, claimFirst, create } from "../stores/store.testing.ts";
import { callbacksOf } from "./callback.ts";

const NOW = 1_800_000_000_500;

test("reports the last status of an earlier attempt, like the task itself", async () => {
  const store = memoryStore();
  await store.commit(batch({ creates: [create({ callbackUrl: "https://example.com/end" })] }));
  const [claim] = await claimFirst(store);
  if (claim === undefined) throw new Error("nothing was claimed");
  const retry = { ...claim, attemptNumber: 3, lastStatus: 503 };
  const bodyOf = (settle: ReturnType<typeof releaseOf>, end: "CANCELLED" | "EXHAUSTED") => {
    const body = callbacksOf(retry, settle, NOW, () => "callback-1")?.[end]?.body;
    return JSON.parse(new TextDecoder().decode(body ?? undefined));
  };
  const told = { attemptNumber: 2, lastStatus: 503, finishedAt: NOW };
  expect(bodyOf(releaseOf(retry, NOW), "CANCELLED")).toMatchObject(told);
  expect(bodyOf(expirationOf(retry, "budget"), "EXHAUSTED")).toMatchObject(told);
});
