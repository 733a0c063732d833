/** Tests the recipe for Kafka, with the real kafkajs and a small broker that speaks its protocol. */
import { Kafka, logLevel } from "kafkajs";
import type { Worker } from "redrive/consume";
import { expect, test } from "vitest";
import { until } from "../consume/received.ts";
import { KafkaServer } from "../servers/kafka.ts";
import { runRecipe } from "./recipe.ts";

test("charges each order, retries failures and keeps what cannot be charged", async () => {
  const server = new KafkaServer();
  await server.start();
  server.createTopic("orders", 3);
  const { worker, charged } = await runRecipe<{ worker: Worker; charged: string[] }>("kafka", {
    KAFKA_BROKERS: server.address,
    KAFKAJS_LOG_LEVEL: "nothing",
  });
  const client = new Kafka({ brokers: [server.address], logLevel: logLevel.NOTHING });
  const producer = client.producer();
  await producer.connect();
  const orders = [{ id: "order-1" }, { id: "order-2", flaky: true }, { id: "order-3", bad: true }];
  const messages = orders.map((order) => ({ key: order.id, value: JSON.stringify(order) }));
  await producer.send({ topic: "orders", messages });
  await producer.disconnect();
  await until(() => charged.length === 2);
  await until(() => server.lag("billing", "orders") === 0);
  await worker.stop();
  expect(charged.toSorted()).toEqual(["order-1", "order-2"]);
  expect(server.records("orders.billing.retry-1000")).toMatchObject([{ key: "order-2" }]);
  expect(server.records("orders.billing.dead")).toMatchObject([
    { key: "order-3", headers: { "redrive-reason": "not-retryable" } },
  ]);
  await server.stop();
});
