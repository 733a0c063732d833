/** Tests of bad input: every row of the table of bad requests that is a single request. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Row } from "./row.ts";
import { ROWS } from "./rows.ts";
import { openTestServer, type TestResponse, type TestServer } from "./test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await openTestServer();
});
afterAll(() => server.close());

function ask({ sent }: Row): Promise<TestResponse> {
  const what = sent(server);
  return typeof what === "string" || Buffer.isBuffer(what)
    ? server.rawCall(what)
    : server.call(what);
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

describe("after all rows", () => {
  test("nothing was polluted, nothing was stored, and the service is healthy", async () => {
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    const { json } = await server.call({ method: "GET", path: "/retry-tasks" });
    expect(json.tasks).toEqual([]);
    expect(server.target.received).toEqual([]);
  });

  test("no response has a stack, SQL or an internal address", async () => {
    for (const row of ROWS) {
      const { text } = await ask(row);
      expect(text).not.toMatch(/\bat .*\.[tj]s:\d|SELECT |INSERT |node_modules|SQLITE/);
    }
  });

  test("row 5: the response says what to type instead", async () => {
    const { json } = await server.call({ body: "{}", headers: { "content-type": "text/plain" } });
    expect(json.detail).toContain("curl --json");
  });
});
