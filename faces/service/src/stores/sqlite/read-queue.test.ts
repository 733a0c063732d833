/** Tests of the read queue, by counting statements: tenants take turns, and nobody waits in vain. */
import { expect, it } from "vitest";
import { MAX_PAGES, ReadQueue } from "./read-queue.ts";
import type { Reader } from "./reader.ts";

/** A reader that logs the statements, and answers each when told to. */
function recordingReader() {
  const run: string[] = [];
  const waiting: (() => void)[] = [];
  const reader: Reader = {
    all(sql) {
      run.push(sql);
      return new Promise((resolve) => waiting.push(() => resolve([[sql]])));
    },
    close: async () => {},
  };
  /** Answers the running statement; resolves once the next one runs. */
  async function answer(): Promise<void> {
    waiting.shift()?.();
    // Three promises are between an answer and the next statement.
    for (let n = 0; n < 9; n++) await Promise.resolve();
  }
  return { reader, run, answer };
}

it("serves another tenant after one statement, however many are queued", async () => {
  const { reader, run, answer } = recordingReader();
  const queue = new ReadQueue(reader);
  for (let n = 0; n < 1000; n++) void queue.read("hostile", `h${n}`, []);
  void queue.read("other", "o0", []);
  void queue.read("other", "o1", []);
  void queue.read("third", "t0", []);
  for (let n = 0; n < 6; n++) await answer();
  expect(run).toEqual(["h0", "o0", "t0", "h1", "o1", "h2", "h3"]);
});

it("a page with many statements takes turns with a page of another tenant", async () => {
  const { reader, run, answer } = recordingReader();
  const queue = new ReadQueue(reader);
  const scan = (tenantId: string, count: number) =>
    queue.page(tenantId, undefined, async (read) => {
      for (let n = 0; n < count; n++) await read(`${tenantId}${n}`, []);
    });
  for (let n = 0; n < 3; n++) void scan("hostile", 1000);
  await answer();
  await answer();
  const before = run.length;
  const own = scan("b", 3);
  let isDone = false;
  void own.then(() => {
    isDone = true;
  });
  while (!isDone) await answer();
  const during = run.slice(before);
  expect(during.filter((sql) => sql.startsWith("b"))).toHaveLength(3);
  // At most one statement of the other tenant before each of its own, and one that was running.
  expect(during.length).toBeLessThanOrEqual(3 + 3 + 1);
});

it("drops what a caller no longer waits for, without a turn", async () => {
  const { reader, run, answer } = recordingReader();
  const queue = new ReadQueue(reader);
  const gone = new AbortController();
  const first = queue.read("a", "a0", []);
  const dropped = Array.from({ length: 5 }, () => queue.read("a", "gone", [], gone.signal));
  const told = Promise.allSettled(dropped);
  const last = queue.read("a", "a1", []);
  gone.abort();
  await answer();
  await answer();
  await Promise.all([first, last]);
  for (const one of await told) {
    expect(one).toMatchObject({ reason: { name: "ReadAbortedError", cause: gone.signal.reason } });
  }
  expect(run).toEqual(["a0", "a1"]);
});

it("refuses a page of a tenant that has too many in progress, and of no other", async () => {
  const { reader, answer } = recordingReader();
  const queue = new ReadQueue(reader);
  const page = (tenantId: string) => queue.page(tenantId, undefined, (read) => read("x", []));
  const pages = Array.from({ length: MAX_PAGES }, () => page("a"));
  await expect(page("a")).rejects.toMatchObject({ code: "TOO_MANY_REQUESTS" });
  const other = page("b");
  for (let n = 0; n <= MAX_PAGES; n++) await answer();
  await Promise.all([...pages, other]);
  const again = page("a");
  await answer();
  expect(await again).toEqual([["x"]]);
});

it("rejects everything once it is closed", async () => {
  const { reader } = recordingReader();
  const queue = new ReadQueue(reader);
  await queue.close();
  await expect(queue.read("a", "x", [])).rejects.toThrow(/closed/);
});
