/** Tests of the tasks that follow the end of another: callbacks and forwarded dead letters. */
import { describe, expect, it } from "vitest";
import { expirationOf, releaseOf } from "../engine/settlement.ts";
import type { StartedTask } from "../model/batch.ts";
import { NO_SETTINGS } from "../model/delivery/delivery-settings.ts";
import type { NewTask } from "../model/task.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { batch, claimFirst, create } from "../stores/store.testing.ts";
import { followUps } from "./follow-ups.ts";

const followUpsOf = followUps(() => "id");

const NOW = 1_800_000_000_500;
const FORWARDING = { ...NO_SETTINGS, deadLetterUrl: "https://example.com/dead" };

async function claimOf(fields: Partial<NewTask>): Promise<StartedTask> {
  const store = memoryStore();
  await store.commit(batch({ creates: [create(fields)] }));
  const [claim] = await claimFirst(store);
  if (claim === undefined) throw new Error("nothing was claimed");
  return { ...claim, attemptNumber: 3, lastStatus: 503 };
}

function bodyOf(task: NewTask | undefined) {
  return JSON.parse(new TextDecoder().decode(task?.body ?? undefined));
}

describe("a callback", () => {
  it("reports the last status of an earlier attempt, like the task itself", async () => {
    const task = await claimOf({ callbackUrl: "https://example.com/end" });
    const told = { attemptNumber: 2, lastStatus: 503, finishedAt: NOW };
    const released = followUpsOf(task, releaseOf(task, NOW), NO_SETTINGS, NOW);
    expect(bodyOf(released?.CANCELLED?.[0])).toMatchObject(told);
    const expired = followUpsOf(task, expirationOf(task, "budget"), NO_SETTINGS, NOW);
    expect(bodyOf(expired?.EXHAUSTED?.[0])).toMatchObject(told);
  });
});

describe("a dead letter", () => {
  const body = new TextEncoder().encode("\u0000 order");
  const headers = { "content-type": "text/plain", authorization: "Bearer secret" };
  const ended = (task: StartedTask) =>
    followUpsOf(task, expirationOf(task, "attempts"), FORWARDING, NOW);

  it("is posted with its request, without headers that may hold secrets", async () => {
    const [forward, ...others] = ended(await claimOf({ body, headers }))?.EXHAUSTED ?? [];
    expect(others).toEqual([]);
    expect(forward).toMatchObject({
      targetUrl: "https://example.com/dead",
      destination: "https://example.com",
      method: "POST",
    });
    expect(bodyOf(forward)).toMatchObject({
      type: "task.dead-letter",
      reason: "attempts",
      lastStatus: 503,
      request: {
        headers: { "content-type": "text/plain" },
        bodyBase64: Buffer.from(body).toString("base64"),
      },
    });
    expect(JSON.stringify(bodyOf(forward))).not.toContain("secret");
  });

  it("is posted besides the callback, and only if the task ends as a dead letter", async () => {
    const task = await claimOf({ callbackUrl: "https://example.com/end" });
    const onEnd = ended(task);
    const urls = (tasks: readonly NewTask[] = []) => tasks.map(({ targetUrl }) => targetUrl);
    expect(urls(onEnd?.EXHAUSTED)).toEqual(["https://example.com/end", "https://example.com/dead"]);
    expect(urls(onEnd?.CANCELLED)).toEqual(["https://example.com/end"]);
    const plain = await claimOf({});
    expect(followUpsOf(plain, releaseOf(plain, NOW), FORWARDING, NOW)).toBe(undefined);
  });

  it("is not posted if it is a forwarded dead letter or a callback itself", async () => {
    const [forward] = ended(await claimOf({}))?.EXHAUSTED ?? [];
    expect(forward?.labels).toHaveProperty(["redrive.dead-letter"]);
    expect(ended(await claimOf({ labels: forward?.labels ?? {} }))).toBe(undefined);
    expect(ended(await claimOf({ labels: { "redrive.callback": "x" } }))).toBe(undefined);
  });
});
