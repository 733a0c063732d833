/** Tests of the limit of received bytes: no flood of a target occupies the service until the deadline. */
import { afterAll, describe, expect, it } from "vitest";
import { AMPLE, bodyOf, brief, requestTo, testDeliverer } from "./deliverer.testing.ts";
import { flood, hostileServer } from "./hostile-server.testing.ts";
import { head } from "./hostile-table.testing.ts";
import { MAX_READ_BODY } from "./response.ts";

const deliverer = testDeliverer();
afterAll(() => deliverer.close());

const MIB = 1 << 20;
const CHUNKED = "transfer-encoding: chunked";
/** What the kernel buffers between two sockets of one machine. */
const MAX_SENT = 16 * MIB;

/** None of them is a part of a body, whose length has its own limit. */
const FLOODS: readonly (readonly [does: string, begin: string, part: string, ends: string])[] = [
  ["103", "", head(103, "link: x"), "error protocol"],
  ["100", "", head(100), "error protocol"],
  ["line ends before a response", "", "\r\n", "error protocol"],
  ["an endless status line", "HTTP/1.1 200 ", "x", "error protocol"],
  ["an endless extension of a chunk", `${head(200, CHUNKED)}1;`, "x", "success 200 truncated"],
  ["such an extension after a failure", `${head(503, CHUNKED)}1;`, "x", "status 503 truncated"],
  ["an endless size of a chunk", head(200, CHUNKED), "0", "success 200 truncated"],
  [
    "tiny chunks with extensions",
    head(200, CHUNKED),
    `1;${"x".repeat(999)}\r\ny\r\n`,
    "success 200 truncated",
  ],
];

describe("a target that floods with", () => {
  it.each(FLOODS)("%s is cut off", async (_does, begin, part, ends) => {
    const sent: number[] = [];
    const server = await hostileServer((socket) => {
      socket.write(begin);
      flood(socket, Buffer.from(part.repeat(Math.ceil(65_536 / part.length))));
      socket.on("close", () => sent.push(socket.bytesWritten));
    });
    const result = await deliverer.deliver(requestTo(server.url("/")), AMPLE);
    expect(brief(result)).toBe(ends);
    const next = await deliverer.deliver(requestTo(server.url("/honest")), AMPLE);
    expect([brief(next), bodyOf(next)]).toEqual(["success 200", "honest"]);
    await server.close();
    expect(sent[0]).toBeLessThan(MAX_SENT);
  });
});

it("informational responses are cut off by their number, long before their length", async () => {
  let sent = 0;
  const server = await hostileServer((socket) => {
    const pump = () => {
      for (let n = 0; n < 100; n++) socket.write(head(103));
      sent += 100;
      if (!socket.destroyed) setImmediate(pump);
    };
    pump();
  });
  const result = await deliverer.deliver(requestTo(server.url("/")), AMPLE);
  expect(brief(result)).toBe("error protocol");
  await server.close();
  // 512 KiB are more than 20,000.
  expect(sent).toBeLessThan(10_000);
});

it("a connection may receive any number of responses of the length that is read", async () => {
  const server = await hostileServer(longResponse());
  for (let n = 0; n < 20; n++) {
    const result = await deliverer.deliver(requestTo(server.url("/")), AMPLE);
    // Read to its end, but not all of it is stored.
    expect(brief(result)).toBe("success 200 truncated");
  }
  // undici may open a second one while it ends the first response. Limited to their sum, five were needed.
  expect(server.sockets.length).toBeLessThanOrEqual(2);
  await server.close();
});

it("a response in chunks of one byte is read to the length that is stored", async () => {
  const chunks = "1\r\nx\r\n".repeat(16_384);
  const server = await hostileServer(`${head(200, CHUNKED)}${chunks}0\r\n\r\n`);
  const result = await deliverer.deliver(requestTo(server.url("/")), AMPLE);
  expect([brief(result), bodyOf(result).length]).toEqual(["success 200", 16_384]);
  await server.close();
});

function longResponse(): string {
  return `${head(200, `content-length: ${MAX_READ_BODY}`)}${"x".repeat(MAX_READ_BODY)}`;
}
