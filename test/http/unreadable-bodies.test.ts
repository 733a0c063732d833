/**
 * Tests of stored bodies that cannot be read: the task becomes a dead letter or waits, and the target
 * never gets another body.
 */
import { renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { BlobFolder } from "./blob-folder.ts";
import { ADMIN, type BodyServer, bytesOf, openBodyServer } from "./body-server.ts";
import { endings, type TestServer } from "./test-server.ts";

let bodies: BodyServer;
let server: TestServer;
let folder: BlobFolder;

beforeAll(async () => {
  bodies = await openBodyServer(300_000);
  ({ server, folder } = bodies);
});
afterAll(() => bodies.close());
beforeEach(() => {
  server.target.received.length = 0;
});

describe("a body that cannot be read", () => {
  /** Creates a task that waits while its destination is paused. */
  async function waiting(policy = "quick"): Promise<{ taskId: string; path: string }> {
    await server.redrive.pause("bodies", "acme");
    const headers = { "redrive-destination": "bodies", "redrive-policy": policy };
    const { taskId } = (await bodies.forward(bytesOf(250_000), headers)).json;
    const { bodyRef } = await bodies.view(taskId);
    return { taskId, path: folder.pathOf(bodyRef) };
  }

  test("because it is missing: a dead letter, and nothing is sent", async () => {
    const { taskId, path } = await waiting();
    rmSync(path);
    const ended = endings(server.redrive, 1);
    await server.redrive.resume("bodies", "acme");
    await ended;
    expect(await bodies.view(taskId)).toMatchObject({
      status: "EXHAUSTED",
      reason: "body-unavailable",
      lastError: "the body of the task is not in the blob store",
      attemptNumber: 0,
    });
    expect(await bodies.attemptsOf(taskId)).toEqual([]);
    expect(server.target.received).toHaveLength(0);
    const body = await bodies.as(ADMIN, { method: "GET", path: `/retry-tasks/${taskId}/body` });
    expect(body.status).toBe(404);
  });

  test("because it was truncated: a dead letter, and nothing is sent", async () => {
    const { taskId, path } = await waiting();
    truncateSync(path, 249_999);
    const ended = endings(server.redrive, 1);
    await server.redrive.resume("bodies", "acme");
    await ended;
    expect(await bodies.view(taskId)).toMatchObject({
      reason: "body-unavailable",
      attemptNumber: 0,
    });
    expect(server.target.received).toHaveLength(0);
  });

  test.each(["first", "last"])(
    "because its %s bit flipped: the target never gets a complete body",
    async (place) => {
      const { taskId, path } = await waiting();
      const bytes = bytesOf(250_000);
      bytes[place === "first" ? 0 : 249_999]! ^= 1;
      writeFileSync(path, bytes);
      const ended = endings(server.redrive, 1);
      await server.redrive.resume("bodies", "acme");
      await ended;
      expect(server.target.received).toHaveLength(0);
      expect(await bodies.view(taskId)).toMatchObject({
        status: "EXHAUSTED",
        reason: "body-unavailable",
      });
      const [attempt, ...more] = await bodies.attemptsOf(taskId);
      expect(attempt).toMatchObject({ attemptNumber: 1, errorClass: "body-unavailable" });
      expect(more).toEqual([]);
    },
  );

  test("because the blob store is gone: it waits without an attempt, and continues", async () => {
    const { taskId } = await waiting("once");
    renameSync(folder.path, `${folder.path}.away`);
    await server.redrive.resume("bodies", "acme");
    await expect
      .poll(() => bodies.view(taskId))
      .toMatchObject({ status: "PENDING", lastError: expect.stringContaining("not available") });
    expect(await bodies.view(taskId)).toMatchObject({ attemptNumber: 0 });
    const refused = await bodies.forward(bytesOf(70_000));
    expect(refused).toMatchObject({ status: 503, json: { code: "BODY_STORE_UNAVAILABLE" } });
    renameSync(`${folder.path}.away`, folder.path);
    const ended = endings(server.redrive, 1);
    await server.redrive.retryNow(taskId, "acme").catch(() => {});
    await ended;
    expect(await bodies.view(taskId)).toMatchObject({ status: "SUCCEEDED", attemptNumber: 1 });
    expect(server.target.received.map((one) => one.body.length)).toEqual([250_000]);
  });

  test("can be repaired: a redrive of the dead letter uses the same blob", async () => {
    const { taskId, path } = await waiting();
    rmSync(path);
    const dead = endings(server.redrive, 1);
    await server.redrive.resume("bodies", "acme");
    await dead;
    writeFileSync(path, bytesOf(250_000));
    const ended = endings(server.redrive, 1);
    expect(await server.redrive.redriveTask(taskId, "acme")).toBe(true);
    await ended;
    const { bodyRef, redrivenTo } = await bodies.view(taskId);
    expect((await bodies.view(redrivenTo)).bodyRef).toBe(bodyRef);
    expect(server.target.received.map((one) => one.body.length)).toEqual([250_000]);
  });
});
