/** Tests of the adapter for SQS: the AWS SDK, against a local server that speaks the protocol. */
import { SQS } from "@aws-sdk/client-sqs";
import { NonRetryableError } from "redrive";
import {
  type ConsumeOptions,
  consume,
  type Message,
  type MessageContext,
  type SqsMessage,
  type SqsOptions,
  sqs,
  type Worker,
} from "redrive/consume";
import { virtualClock } from "redrive/testing";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { SqsServer } from "../servers/sqs.ts";
import { gate, Received, until } from "./received.ts";

let server: SqsServer;
let client: SQS;
let queues = 0;
const workers: Worker[] = [];

beforeAll(async () => {
  server = new SqsServer();
  await server.listen();
  client = new SQS({
    endpoint: server.endpoint,
    region: "eu-central-1",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
    maxAttempts: 1,
  });
});

afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.stop(0)));
});

afterAll(async () => {
  client.destroy();
  await server.close();
});

type Handler = (message: Message<SqsMessage>, context: MessageContext) => unknown;

function setup(handler: Handler, options: ConsumeOptions = {}, more: Partial<SqsOptions> = {}) {
  const name = `orders-${++queues}`;
  const queueUrl = more.queueUrl ?? server.queueUrl(name);
  const deadLetterQueueUrl = more.deadLetterQueueUrl ?? server.queueUrl(`${name}-dead`);
  const received = new Received();
  const policy = {
    maxAttempts: 3,
    initialDelayMs: 1500,
    jitterType: "NONE",
    totalBudgetMs: 86_400_000,
  } as const;
  const consumer = consume(handler, { policy, onEvent: received.onEvent, ...options });
  const worker = sqs(consumer, { client, ...more, queueUrl, deadLetterQueueUrl });
  workers.push(worker);
  const add = async (...bodies: string[]) => {
    for (const MessageBody of bodies) await client.sendMessage({ QueueUrl: queueUrl, MessageBody });
  };
  return { queueUrl, deadLetterQueueUrl, received, consumer, worker, add };
}

const busy = () => Object.assign(new Error("busy"), { status: 503 });

/** The requests of an action for a queue. */
function requestsOf(queueUrl: string, action: string) {
  return server.requests
    .filter((request) => request.action === action && request.input["QueueUrl"] === queueUrl)
    .map(({ input }) => input);
}

/** The visibility timeouts that were set, in seconds. */
function timeouts(queueUrl: string): unknown[] {
  return requestsOf(queueUrl, "ChangeMessageVisibilityBatch")
    .flatMap(({ Entries }) => Entries as { readonly VisibilityTimeout: number }[])
    .map(({ VisibilityTimeout: seconds }) => seconds);
}

describe("messages", () => {
  test("are handled and deleted, ten with one request", async () => {
    const bodies: unknown[] = [];
    const seen = setup(({ body }) => void bodies.push(body.Body));
    const sent = Array.from({ length: 10 }, (_, index) => `m${index}`);
    await seen.add(...sent);
    await seen.worker.start();
    await seen.received.count("handled", 10);
    await seen.worker.stop();
    expect(bodies).toEqual(sent);
    expect(server.messages(seen.queueUrl)).toEqual([]);
    expect(requestsOf(seen.queueUrl, "DeleteMessageBatch")).toHaveLength(1);
  });

  test("that fail are hidden for their delay, then dead letters with their history", async () => {
    const attempts: number[] = [];
    const seen = setup((_, { attempt }) => {
      attempts.push(attempt);
      throw busy();
    });
    await seen.add("a");
    await seen.worker.start();
    for (const count of [1, 2]) {
      await seen.received.count("retry", count);
      await until(() => timeouts(seen.queueUrl).length === count);
      await server.advance(3000);
    }
    await seen.received.count("dead-letter", 1);
    await seen.worker.stop();
    expect(attempts).toEqual([1, 2, 3]);
    // 1.5 s and 3 s, in whole seconds and never shorter.
    expect(timeouts(seen.queueUrl)).toEqual([2, 3]);
    expect(server.messages(seen.queueUrl)).toEqual([]);
    const [dead] = server.messages(seen.deadLetterQueueUrl);
    expect(dead?.body).toBe("a");
    const { redrive } = (dead?.attributes ?? {}) as { redrive?: { StringValue: string } };
    expect(JSON.parse(redrive?.StringValue ?? "")).toMatchObject({
      reason: "attempts",
      attempts: 3,
      history: [{ attempt: 1, error: "Error: busy" }, { attempt: 2 }, { attempt: 3 }],
    });
  });

  test("that another process received have no attempt for it", async () => {
    const attempts: number[] = [];
    const seen = setup((_, { attempt }) => void attempts.push(attempt));
    await seen.add("a");
    await client.receiveMessage({ QueueUrl: seen.queueUrl, VisibilityTimeout: 1 });
    await server.advance(1000);
    await seen.worker.start();
    await seen.received.count("handled", 1);
    expect(attempts).toEqual([1]);
  });

  test("that were deferred use no attempt, although SQS counts a receive", async () => {
    const { opened, open } = gate();
    let calls = 0;
    const attempts: number[] = [];
    const policy = { attemptTimeoutMs: 600_000, totalBudgetMs: 3_600_000 };
    const seen = setup(
      async (_, { attempt }) => {
        attempts.push(attempt);
        if (++calls > 1) return undefined;
        await opened;
        const { defer } = await import("redrive/consume");
        return defer(5000);
      },
      { policy },
    );
    await seen.add("a");
    await seen.worker.start();
    open();
    await seen.received.count("defer", 1);
    await until(() => timeouts(seen.queueUrl).length === 1);
    await server.advance(20_000);
    await seen.received.count("handled", 1);
    expect(attempts).toEqual([1, 1]);
  });

  test("of a FIFO queue become dead letters of their group", async () => {
    const queueUrl = server.queueUrl("orders.fifo");
    const deadLetterQueueUrl = server.queueUrl("dead.fifo");
    const seen = setup(
      () => Promise.reject(new NonRetryableError(new Error("never valid"))),
      {},
      {
        queueUrl,
        deadLetterQueueUrl,
      },
    );
    await client.sendMessage({
      QueueUrl: queueUrl,
      MessageBody: "a",
      MessageGroupId: "customer 7",
    });
    await seen.worker.start();
    await seen.received.count("dead-letter", 1);
    await seen.worker.stop();
    const sent = server.requests.filter(({ input }) => input["QueueUrl"] === deadLetterQueueUrl);
    const [message] = server.messages(deadLetterQueueUrl);
    expect(message?.systemAttributes).toEqual({ MessageGroupId: "customer 7" });
    expect(sent[0]?.input["MessageDeduplicationId"]).toMatch(/^id-/);
  });
});

/** The test decides when alarms are due; turns of the event loop end by themselves. */
function alarmClock() {
  return { ...virtualClock(Date.now()), endOfTurn: (fn: () => void) => void setImmediate(fn) };
}

describe("while handlers run", () => {
  const policy = {
    initialDelayMs: 1500,
    jitterType: "NONE",
    attemptTimeoutMs: 600_000,
    totalBudgetMs: 3_600_000,
  } as const;

  async function running(count: number, more: Partial<SqsOptions> = {}) {
    const clock = alarmClock();
    const ends = new Map<string | undefined, (error?: Error) => void>();
    const seen = setup(
      ({ body }) =>
        new Promise<void>((resolve, reject) => {
          ends.set(body.Body, (error) => (error ? reject(error) : resolve()));
        }),
      { clock, policy, concurrency: 30 },
      { visibilityMs: 30_000, ...more },
    );
    const names = Array.from({ length: count }, (_, index) => `m${index}`);
    await seen.add(...names);
    await seen.worker.start();
    await until(() => ends.size === count);
    ending.push(() => {
      for (const end of ends.values()) end();
    });
    return { ...seen, clock, ends };
  }

  // Their clocks stand still, so a stop would wait for them.
  const ending: (() => void)[] = [];
  afterEach(() => {
    for (const end of ending.splice(0)) end();
  });

  test("messages stay hidden, ten with one request, all at the same time", async () => {
    const { clock, queueUrl } = await running(25);
    await clock.advance(10_000);
    await until(() => timeouts(queueUrl).length === 25);
    expect(timeouts(queueUrl)).toEqual(Array(25).fill(30));
    const requests = requestsOf(queueUrl, "ChangeMessageVisibilityBatch");
    expect(requests.map(({ Entries }) => (Entries as []).length).toSorted()).toEqual([10, 10, 5]);
  });

  /** Extends four times. Returns how often each message was extended. */
  async function extendAll(
    clock: ReturnType<typeof alarmClock>,
    queueUrl: string,
    extensions: () => readonly string[],
  ) {
    const handles = server.messages(queueUrl).map(({ handle }) => handle);
    const [first] = server.messages(queueUrl);
    // Somebody else gets the first message.
    if (first !== undefined) first.handle = "another";
    const count = (handle: string | undefined) =>
      extensions().filter((one) => one === handle).length;
    for (let time = 1; time <= 4; time++) {
      await clock.advance(10_000);
      await until(() => count(handles.at(-1)) === time);
    }
    return handles.map(count);
  }

  test("a receipt that has ended ends no extension but its own", async () => {
    const { clock, queueUrl, received } = await running(5);
    await server.advance(20_000);
    const counts = await extendAll(clock, queueUrl, () =>
      requestsOf(queueUrl, "ChangeMessageVisibilityBatch")
        .flatMap(({ Entries }) => Entries as { readonly ReceiptHandle: string }[])
        .map(({ ReceiptHandle: handle }) => handle),
    );
    // The answer to the first one may come after the second one was sent.
    expect(counts[0]).toBeLessThanOrEqual(2);
    expect(counts.slice(1)).toEqual([4, 4, 4, 4]);
    expect(received.ofType("broker-failed")).toEqual([]);
    await server.advance(25_000);
    await until(() => server.messages(queueUrl)[0]?.receives === 2);
    expect(server.messages(queueUrl).map(({ receives }) => receives)).toEqual([2, 1, 1, 1, 1]);
  });

  test("the wait of a retry is not overwritten by an extension", async () => {
    const { clock, queueUrl, ends, received } = await running(1);
    // The extension is on its way when the handler fails.
    const arrived = server.holdNext("ChangeMessageVisibilityBatch");
    await clock.advance(10_000);
    const release = await arrived;
    ends.get("m0")?.(busy());
    await received.count("retry", 1);
    release();
    await until(() => timeouts(queueUrl).length === 2);
    await clock.advance(60_000);
    expect(timeouts(queueUrl)).toEqual([30, 2]);
    const [message] = server.messages(queueUrl);
    expect(message?.visibleAt).toBe(server.now() + 2000);
  });

  test("a client without the batch needs a request for each message", async () => {
    const single = {
      receiveMessage: client.receiveMessage.bind(client),
      deleteMessageBatch: client.deleteMessageBatch.bind(client),
      changeMessageVisibility: client.changeMessageVisibility.bind(client),
      sendMessage: client.sendMessage.bind(client),
    } as unknown as SqsOptions["client"];
    const { clock, queueUrl } = await running(3, { client: single });
    const counts = await extendAll(clock, queueUrl, () =>
      requestsOf(queueUrl, "ChangeMessageVisibility").map(({ ReceiptHandle: handle }) =>
        String(handle),
      ),
    );
    expect(counts[0]).toBeLessThanOrEqual(2);
    expect(counts.slice(1)).toEqual([4, 4]);
  });
});

test("a failure of SQS is reported, and the worker goes on", async () => {
  const seen = setup(() => "done");
  await seen.worker.start();
  await seen.add("a");
  // The next requests of the worker: it deletes the message, and polls.
  server.failNext = 2;
  await seen.received.count("broker-failed", 2);
  await seen.received.count("broker-recovered", 1);
  await seen.add("b");
  await seen.received.count("handled", 2);
  await until(() => server.messages(seen.queueUrl).length === 0);
});

test("stop gives messages back, and ends the poll at once", async () => {
  const seen = setup(
    (_, { signal }) =>
      new Promise((__, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  );
  await seen.add("a");
  await seen.worker.start();
  await until(() => seen.consumer.active === 1);
  await seen.worker.stop(0);
  expect(seen.received.ofType("defer")).toMatchObject([{ by: "stop" }]);
  expect(timeouts(seen.queueUrl)).toHaveLength(1);
});

describe("options", () => {
  const urls = { queueUrl: "https://q", deadLetterQueueUrl: "https://d" };
  const mistakes: [object, string][] = [
    [urls, "client is required, got undefined"],
    [{ ...urls, client: {} }, "client must be an SQS of @aws-sdk/client-sqs"],
    [{ queueUrl: "orders" }, 'queueUrl must be an http(s) URL, got "orders"'],
    [{ ...urls, visibilityMs: 43_200_001 }, "visibilityMs must be a whole number from 3000 to"],
    [{ ...urls, waitSecond: 3 }, 'did you mean "waitSeconds"?'],
  ];

  test.each(mistakes)("refuses %o", (options, text) => {
    const consumer = consume<SqsMessage>(() => undefined);
    expect(() => sqs(consumer, options as SqsOptions)).toThrow(text);
  });
});
