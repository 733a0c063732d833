/** Tests the recipe for SQS, with a local server that speaks the protocol. */
import { SQS } from "@aws-sdk/client-sqs";
import type { Worker } from "redrive/consume";
import { expect, test } from "vitest";
import { until } from "../consume/received.ts";
import { SqsServer } from "../servers/sqs.ts";
import { runRecipe } from "./recipe.ts";

test("handles messages, and moves those that cannot be handled to the dead letters", async () => {
  const server = new SqsServer();
  await server.listen();
  const queueUrl = server.queueUrl("pictures");
  const deadLetterQueueUrl = server.queueUrl("pictures-dead");
  const { worker, resized } = await runRecipe<{ worker: Worker; resized: unknown[] }>("sqs", {
    AWS_ACCESS_KEY_ID: "test",
    AWS_SECRET_ACCESS_KEY: "test",
    SQS_ENDPOINT: server.endpoint,
    QUEUE_URL: queueUrl,
    DEAD_LETTER_QUEUE_URL: deadLetterQueueUrl,
  });
  const client = new SQS({ endpoint: server.endpoint, region: "eu-central-1" });
  for (const MessageBody of ['{"picture":"cat.png"}', "{}"]) {
    await client.sendMessage({ QueueUrl: queueUrl, MessageBody });
  }
  await until(() => resized.length === 1 && server.messages(queueUrl).length === 0);
  await worker.stop();
  expect(resized).toEqual(["cat.png"]);
  expect(server.messages(deadLetterQueueUrl)).toMatchObject([{ body: "{}" }]);
  client.destroy();
  await server.close();
});
