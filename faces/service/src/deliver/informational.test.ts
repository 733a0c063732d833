/** Tests of informational responses: a target may send any number of them before its response. */
import { afterAll, describe, expect, it } from "vitest";
import { AMPLE, bodyOf, brief, requestTo, testDeliverer } from "./deliverer.testing.ts";
import { type Behavior, hostileServer } from "./hostile-server.testing.ts";
import { complete, head } from "./hostile-table.testing.ts";

const deliverer = testDeliverer();
afterAll(() => deliverer.close());

const CONTINUE = head(100);
const FINAL = complete(200);

async function attempt(behavior: Behavior, more: Parameters<typeof requestTo>[1] = {}) {
  const server = await hostileServer(behavior);
  const result = await deliverer.deliver(requestTo(server.url("/hostile"), more), AMPLE);
  const next = await deliverer.deliver(requestTo(server.url("/honest")), AMPLE);
  expect([brief(next), bodyOf(next)]).toEqual(["success 200", "honest"]);
  await server.close();
  return result;
}

/** Sends the text one byte at a time, each in its own packet. */
const byteByByte =
  (text: string): Behavior =>
  async (socket) => {
    for (const byte of text) {
      socket.write(byte, "latin1");
      await new Promise((resolve) => setImmediate(resolve));
    }
  };

describe("an unrequested informational response", () => {
  it.each<[string, Behavior]>([
    ["100", CONTINUE + FINAL],
    ["100 with headers", head(100, "x-a: b") + FINAL],
    ["several", CONTINUE + head(103, "link: <a>") + CONTINUE + head(102) + FINAL],
    ["100 in single bytes", byteByByte(CONTINUE + CONTINUE + FINAL)],
  ])("is ignored: %s", async (_what, behavior) => {
    for (const body of [null, Buffer.from("x")]) {
      const result = await attempt(behavior, { body });
      expect(brief(result)).toBe("success 200");
    }
  });

  it("in the body is not touched", async () => {
    const text = `${CONTINUE}x`;
    const answer = (socket: Parameters<Exclude<Behavior, string | Buffer>>[0]) => {
      socket.write(head(200, `content-length: ${text.length}`));
      setImmediate(() => socket.write(text));
    };
    expect(bodyOf(await attempt(answer))).toBe(text);
  });

  it("does not change a final status that begins like it", async () => {
    expect(brief(await attempt(CONTINUE + complete(503)))).toBe("status 503");
  });
});
