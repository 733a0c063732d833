/** Tests of deliver tasks: one attempt that cannot be prepared or sent never affects another. */
import { randomBytes } from "node:crypto";
import { virtualClock } from "@redrive/core";
import { expect, test } from "vitest";
import { BlobError } from "./bodies/blob-store.ts";
import { type AttemptResult, notStarted } from "./deliver/attempt.ts";
import { type DeliverParts, deliverTasks } from "./deliver-tasks.ts";
import type { DeliveryLimits } from "./engine/runner.ts";
import { openSecrets, type Secrets } from "./intake/secrets.ts";
import { freshClaim, type StartedTask } from "./model/batch.ts";
import { NO_SETTINGS } from "./model/delivery/delivery-settings.ts";
import { memoryDocuments } from "./stores/memory/memory-documents.ts";
import { newTask } from "./stores/store.testing.ts";

const fill = (bytes: Uint8Array) => void bytes.set(randomBytes(bytes.length));
const SENT = notStarted({ kind: "success" }, null);

const LIMITS: DeliveryLimits = {
  attemptTimeoutMs: 60_000,
  connectTimeoutMs: 5000,
  now: 0,
  signal: new AbortController().signal,
  delivery: NO_SETTINGS,
  mayStart: () => true,
  traceparent: undefined,
};

const parts: DeliverParts = {
  clock: virtualClock(0),
  bodies: { open: () => Promise.reject(new BlobError("unavailable", "no blobs")) },
  deliverer: { deliver: async () => SENT },
  secrets: await openSecrets(memoryDocuments(), fill, randomBytes(32).toString("base64")),
};

function taskOf(taskId: string): StartedTask {
  const task = newTask({ taskId, headers: { authorization: `Bearer ${taskId}` } });
  return freshClaim(parts.secrets.seal(task), 1, "node-1", 0);
}

/** How the attempts end that are started together. */
async function outcomesOf(
  changed: Partial<DeliverParts>,
  tasks: readonly StartedTask[],
  limits = LIMITS,
): Promise<readonly (AttemptResult | undefined)[]> {
  const deliver = deliverTasks({ ...parts, ...changed });
  const results: (AttemptResult | undefined)[] = tasks.map(() => undefined);
  for (const [index, task] of tasks.entries()) {
    deliver(task, limits, (result) => {
      results[index] = result;
    });
  }
  for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
  return results;
}

const invalid = (errorMessage: string) => ({
  outcome: { kind: "fault" },
  errorClass: "invalid-request",
  errorMessage,
});

test("an attempt whose headers cannot be opened is the only one of its group that fails", async () => {
  const secrets: Secrets = {
    ...parts.secrets,
    openHeaders(task) {
      if (task.taskId === "bad") throw new Error("no headers");
      return parts.secrets.openHeaders(task);
    },
  };
  const tasks = ["good", "bad", "well"].map(taskOf);
  expect(await outcomesOf({ secrets }, tasks)).toEqual([
    SENT,
    expect.objectContaining(invalid("no headers")),
    SENT,
  ]);
});

test.each([
  ["with secrets", taskOf],
  ["without", (taskId: string) => freshClaim(newTask({ taskId, headers: {} }), 1, "node-1", 0)],
])("a request that the deliverer refuses at once fails alone: %s", async (_name, taskFor) => {
  const deliverer: DeliverParts["deliverer"] = {
    deliver({ taskId }) {
      if (taskId === "bad") throw new Error("no URL");
      return Promise.resolve(SENT);
    },
  };
  const tasks = ["good", "bad", "well"].map(taskFor);
  expect(await outcomesOf({ deliverer }, tasks)).toEqual([
    SENT,
    expect.objectContaining(invalid("no URL")),
    SENT,
  ]);
});

test("an attempt that was aborted before its body is opened does not wait for the blob store", async () => {
  const bodies: DeliverParts["bodies"] = {
    open: (_task, signal) =>
      new Promise((_resolve, reject) => {
        const stop = () => reject(new BlobError("unavailable", "stopped"));
        if (signal?.aborted) stop();
        else signal?.addEventListener("abort", stop);
      }),
  };
  const task = freshClaim({ ...newTask({ headers: {} }), bodyRef: "a body" }, 1, "node-1", 0);
  const limits = { ...LIMITS, signal: AbortSignal.abort() };
  const aborted = expect.objectContaining({ outcome: { kind: "aborted" } });
  expect(await outcomesOf({ bodies }, [task], limits)).toEqual([aborted]);
});
