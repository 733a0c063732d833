/** Tests of `redrive explain`: what happened, why the task waits, and what comes next. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { redrive } from "../program.testing.ts";
import { type RunningService, startService } from "../serve/running-service.ts";

const DAY_MS = 86_400_000;
const target = createServer((_, response) => response.writeHead(400).end());
let service: RunningService;
let targetUrl: string;

beforeAll(async () => {
  service = await startService({ host: "127.0.0.1", port: 0, store: "memory:" });
  await new Promise<void>((resolve) => target.listen(0, "127.0.0.1", resolve));
  targetUrl = `http://127.0.0.1:${(target.address() as AddressInfo).port}/`;
});
afterAll(async () => {
  await service.stop();
  target.closeAllConnections();
  target.close();
});

const explain = async (taskId: string) =>
  (await redrive(`explain ${taskId} --url ${service.url}`, { width: 10_000 })).out;

test("a dead letter is explained with its last result and what to do", async () => {
  const { out } = await redrive(`send ${targetUrl} --wait 5s --url ${service.url}`);
  const text = await explain(out.split(" ")[0] ?? "");
  expect(text).toMatch(
    /^The task sends POST http:\S+ and was created .+?\. It has made 1 attempt; the last result, .+, was status 400 after \S+ m?s\. /u,
  );
  expect(text).toContain("It ended after 1 attempt: repeating it would not help");
  expect(text).toMatch(/It is a dead letter \(not-retryable\): .*`redrive dlq redrive`/u);
});

test("a held task is explained with the guard that holds it", async () => {
  await service.redrive.pause("payments");
  const { taskId } = await service.redrive.enqueue({ targetUrl, destination: "payments" });
  const text = await explain(taskId);
  expect(text).toContain("Attempt 1 waits: destination payments is paused until it is resumed.");
  expect(text).toMatch(/resumed\. It has waited since \d\d:\d\d:\d\d\.\n$/u);
  expect(text.match(/paused?\b/gu), "the hold is named once").toHaveLength(1);
  const json = await redrive(`explain ${taskId} --json --url ${service.url}`);
  expect(JSON.parse(json.out)).toMatchObject({ taskId, wait: { cause: "pause", untilAt: null } });
});

test("without an id, the newest task is explained", async () => {
  const { taskId } = await service.redrive.enqueue({
    targetUrl,
    scheduledAt: service.redrive.now() + DAY_MS,
  });
  const { out } = await redrive(`explain --json --url ${service.url}`);
  expect(JSON.parse(out)).toMatchObject({ taskId });
  const shown = await redrive(`tasks get --json --url ${service.url}`);
  expect(JSON.parse(shown.out)).toMatchObject({ taskId });
  const retried = await redrive(`tasks retry --url ${service.url}`);
  expect(retried.out).toContain(taskId);
});

test("an unknown task is an error", async () => {
  const { code, err } = await redrive(`explain nothing --url ${service.url}`);
  expect([code, err]).toEqual([1, expect.stringContaining('there is no task "nothing"')]);
});
