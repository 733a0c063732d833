/** Bad input: every row of reliability.md 4A that is one request. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Row } from "./row.ts";
import { ROWS } from "./rows.ts";
import { type Answer, type Front, openFront } from "./test-server.ts";

let front: Front;
beforeAll(async () => {
  front = await openFront();
});
afterAll(() => front.close());

function ask({ sent }: Row): Promise<Answer> {
  const what = sent(front);
  return typeof what === "string" || Buffer.isBuffer(what) ? front.rawCall(what) : front.call(what);
}

test.each(ROWS.map((row) => [row.row, row.what, row] as const))("%s: %s", async (_, __, row) => {
  const { status, headers, json } = await ask(row);
  expect([row.status].flat(), JSON.stringify(json)).toContain(status);
  if (status < 400) return;
  expect(headers["content-type"]).toContain("application/problem+json");
  if (status === 405) expect(headers.allow).toMatch(/GET|POST/);
  if (json === null) return;
  expect(json).toMatchObject({ status, code: expect.stringMatching(/^[A-Z_]+$/) });
  if (row.code !== undefined) expect(json.code).toBe(row.code);
  if (row.field !== undefined) {
    expect(json.errors.map((error: { field: string }) => error.field)).toContain(row.field);
  }
});

describe("after all of it", () => {
  test("nothing was polluted, nothing was stored, and the service is well", async () => {
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    const { json } = await front.call({ method: "GET", path: "/retry-tasks" });
    expect(json.tasks).toEqual([]);
    expect(front.target.received).toEqual([]);
  });

  test("no answer has a stack, SQL or an address of ours", async () => {
    for (const row of ROWS) {
      const { text } = await ask(row);
      expect(text).not.toMatch(/\bat .*\.[tj]s:\d|SELECT |INSERT |node_modules|SQLITE/);
    }
  });

  test("row 5: the answer names what to type instead", async () => {
    const { json } = await front.call({ body: "{}", headers: { "content-type": "text/plain" } });
    expect(json.detail).toContain("curl --json");
  });
});
