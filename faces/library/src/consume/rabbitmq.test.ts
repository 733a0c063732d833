/** Tests of the acknowledgments to RabbitMQ: against a broker that knows what it has delivered. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type AmqpMessage, DeliveryAcks, type OpenDelivery } from "./rabbitmq.ts";

/** The broker's part: deliveries without an acknowledgment, and the frames that it got. */
function broker() {
  const unacked = new Set<number>();
  const frames: (readonly [tag: number, allUpTo: boolean])[] = [];
  let endTurn = () => {};
  const acks = new DeliveryAcks({
    endOfTurn: (fn) => {
      endTurn = fn;
    },
    ack: (message, allUpTo) => {
      const tag = tagOf(message);
      // RabbitMQ closes the channel for a tag that it does not know.
      expect(unacked.has(tag)).toBe(true);
      frames.push([tag, allUpTo]);
      for (const one of [...unacked])
        if (one === tag || (allUpTo && one < tag)) unacked.delete(one);
    },
  });
  let tags = 0;
  return {
    acks,
    unacked,
    frames,
    deliver(): OpenDelivery {
      unacked.add(++tags);
      // The list reads nothing of a message. The tag is where this test finds it again.
      const fields = { exchange: "", routingKey: String(tags) };
      return acks.begin({ fields, properties: {}, content: Buffer.alloc(0) } as AmqpMessage);
    },
    endTurn: () => endTurn(),
  };
}

function tagOf({ fields }: AmqpMessage): number {
  return Number(fields.routingKey);
}

test("messages that end in their order need one frame", () => {
  const { acks, frames, deliver, endTurn } = broker();
  for (const delivery of Array.from({ length: 100 }, deliver)) acks.end(delivery);
  expect(frames).toEqual([]);
  endTurn();
  expect(frames).toEqual([[100, true]]);
});

test("a message that runs is not acknowledged with those behind it", () => {
  const { acks, frames, unacked, deliver, endTurn } = broker();
  const [first, second, third, fourth] = Array.from({ length: 4 }, deliver);
  for (const delivery of [fourth, first, third]) acks.end(delivery as OpenDelivery);
  endTurn();
  expect(frames).toEqual([
    [1, true],
    [4, false],
    [3, false],
  ]);
  expect([...unacked]).toEqual([2]);
  // It does not keep the others in memory.
  expect([second?.before, second?.after]).toEqual([undefined, undefined]);
});

test("exactly the messages that have ended are acknowledged, in any order", () => {
  const step = fc.oneof(fc.constant("deliver"), fc.constant("turn"), fc.nat(20));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: "max" }), (steps) => {
      const { acks, unacked, frames, deliver, endTurn } = broker();
      const running: { readonly tag: number; readonly delivery: OpenDelivery }[] = [];
      let tags = 0;
      for (const one of steps) {
        if (one === "deliver") running.push({ tag: ++tags, delivery: deliver() });
        else if (one === "turn") {
          endTurn();
          expect([...unacked]).toEqual(running.map(({ tag }) => tag));
        } else {
          const [ended] = running.splice(one, 1);
          if (ended !== undefined) acks.end(ended.delivery);
        }
      }
      acks.flush();
      expect([...unacked]).toEqual(running.map(({ tag }) => tag));

      // Nothing else is left: one more frame is enough for all that runs.
      frames.length = 0;
      for (const { delivery } of [...running, { delivery: deliver() }]) acks.end(delivery);
      acks.flush();
      expect(frames).toEqual([[tags + 1, true]]);
    }),
  );
});
