/** Rows 7 and 8 of the table of hostile targets: a huge response is not kept in memory. */
import { gzipSync } from "node:zlib";
import { afterAll, describe, expect, it } from "vitest";
import { AMPLE, requestTo, testDeliverer } from "./deliverer.testing.ts";
import { type Behavior, hostileServer } from "./hostile-server.testing.ts";
import { MAX_STORED_BODY } from "./response.ts";

const MIB = 1 << 20;
const ATTEMPTS = 20;
/** Size of each response; all of them together would be 400 MiB. */
const LARGE = 20 * MIB;
const MAX_GROWTH = 100 * MIB;

const deliverer = testDeliverer();
afterAll(() => deliverer.close());

const zeroes = Buffer.alloc(LARGE);
const bomb = gzipSync(zeroes);
const answering =
  (body: Buffer, ...lines: readonly string[]): Behavior =>
  (socket) => {
    const head = ["HTTP/1.1 200 OK", `content-length: ${body.length}`, ...lines];
    socket.write(`${head.join("\r\n")}\r\n\r\n`);
    socket.write(body);
  };

describe("memory", () => {
  it.each([
    ["20 MiB of body (row 7)", answering(zeroes)],
    ["a gzip bomb of 20 MiB (row 8)", answering(bomb, "content-encoding: gzip")],
  ])("does not grow by %s in twenty concurrent attempts", async (_name, behavior) => {
    const server = await hostileServer(behavior);
    const before = process.memoryUsage.rss();
    let most = before;
    const attempts = Array.from({ length: ATTEMPTS }, async () => {
      const result = await deliverer.deliver(requestTo(server.url()), AMPLE);
      most = Math.max(most, process.memoryUsage.rss());
      return result;
    });
    const results = await Promise.all(attempts);
    await server.close();
    expect(results.map(({ status }) => status)).toEqual(new Array(ATTEMPTS).fill(200));
    for (const { responseBody } of results) {
      expect(responseBody?.length).toBeLessThanOrEqual(MAX_STORED_BODY);
    }
    expect(most - before).toBeLessThan(MAX_GROWTH);
  });
});
