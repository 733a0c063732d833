/** Tests of `redrive bridge` with RabbitMQ. They share the broker of the tests of the adapter. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { BridgeWorld } from "./bridge-world.ts";
import { QUORUM, type RabbitWorld } from "./rabbit-world.ts";
import { until } from "./received.ts";

export function rabbitBridgeTests(rabbit: () => RabbitWorld): void {
  const world = new BridgeWorld();

  beforeAll(() => world.start());
  afterAll(() => world.stop());

  async function queueOf(name: string) {
    const { channel, server } = rabbit();
    await channel.assertQueue(name, QUORUM);
    return { channel, source: { from: server.url, queue: name } };
  }

  test("each message becomes one task, with its body and its type", async () => {
    const { channel, source } = await queueOf("bridge-orders");
    const properties = {
      messageId: "order-1",
      contentType: "text/plain",
      headers: { shop: "berlin", secret: "hidden" },
    };
    channel.sendToQueue(source.queue, Buffer.from([0xff, 0, 1]), properties);
    channel.sendToQueue(source.queue, Buffer.from([0xff, 0, 1]), properties);
    channel.sendToQueue(source.queue, Buffer.alloc(600 * 1024, "x"), { messageId: "long" });
    const before = world.arrived.length;
    const bridge = await world.bridge({ ...source, forwardHeader: ["Shop"] });
    await until(() => world.arrived.length === before + 2);
    await bridge.stop();
    const [first, second] = world.arrived
      .slice(before)
      .sort((a, b) => a.body.length - b.body.length);
    expect(first?.body).toEqual(Buffer.from([0xff, 0, 1]));
    expect(first?.headers).toMatchObject({
      "content-type": "text/plain",
      "idempotency-key": "bridge-orders:order-1",
      shop: "berlin",
    });
    expect(first?.headers).not.toHaveProperty("secret");
    expect(second?.body.length).toBe(600 * 1024);
    expect(bridge.written.out).toContain("3 tasks created, 0 dead letters\n");
    expect(await rabbit().sizeOf(source.queue)).toBe(0);
  });

  test("a message that the service can never accept becomes a dead letter", async () => {
    const { channel, source } = await queueOf("bridge-bad");
    channel.sendToQueue(source.queue, Buffer.from("x"), {
      messageId: "bad",
      headers: { host: "evil" },
    });
    const bridge = await world.bridge({ ...source, forwardHeader: ["host"] });
    await until(async () => (await rabbit().sizeOf("bridge-bad.dead")) === 1);
    await bridge.stop();
    expect(bridge.written.err).toMatch(/^message "bad" is a dead letter: .*host/);
  });
}
