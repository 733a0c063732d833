/** Rows 7 and 8 of reliability.md 4B: what a target pours out is not kept, however much it is. */
import { gzipSync } from "node:zlib";
import { afterAll, describe, expect, it } from "vitest";
import { AMPLE, requestTo, testDeliverer } from "./deliverer.testing.ts";
import { type Behaviour, hostileServer } from "./hostile-server.testing.ts";
import { MAX_STORED_BODY } from "./response.ts";

const MIB = 1 << 20;
const ATTEMPTS = 20;
/** Each answer; all of them together would be 400 MiB. */
const LARGE = 20 * MIB;
const MAX_GROWTH = 100 * MIB;

const deliverer = testDeliverer();
afterAll(() => deliverer.close());

const zeroes = Buffer.alloc(LARGE);
const bomb = gzipSync(zeroes);
const answering =
  (body: Buffer, ...lines: readonly string[]): Behaviour =>
  (socket) => {
    const head = ["HTTP/1.1 200 OK", `content-length: ${body.length}`, ...lines];
    socket.write(`${head.join("\r\n")}\r\n\r\n`);
    socket.write(body);
  };

describe("memory", () => {
  it.each([
    ["20 MiB of body (row 7)", answering(zeroes)],
    ["a gzip bomb of 20 MiB (row 8)", answering(bomb, "content-encoding: gzip")],
  ])("holds none of %s, at twenty attempts at once", async (_name, behaviour) => {
    const server = await hostileServer(behaviour);
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
