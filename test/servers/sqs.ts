/**
 * SQS: a local server that speaks the JSON protocol of Amazon SQS, as far as the adapter uses it. Its
 * queues are those of `test/servers/scenario/memory-sqs.ts`. The test moves its clock.
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { seededRandom, type VirtualClock, virtualClock } from "redrive/testing";
import {
  batchResult,
  MemoryQueue,
  receivedMessage,
  SqsError,
  type StoredMessage,
} from "./scenario/memory-sqs.ts";

type Input = Readonly<Record<string, unknown>>;

export class SqsServer {
  /** Requests by their action. */
  readonly requests: { readonly action: string; readonly input: Input }[] = [];
  /** The next requests fail with this status. */
  failNext = 0;
  readonly #server: Server;
  readonly #clock: VirtualClock = virtualClock(Date.now());
  readonly #queues = new Map<string, MemoryQueue>();
  readonly #held = new Map<string, (release: () => void) => void>();

  constructor() {
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  async listen(): Promise<void> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The URL of a queue, which is empty if it is new. */
  queueUrl(name: string): string {
    const url = `${this.endpoint}/000000000000/${name}`;
    const created = () => new MemoryQueue(this.#clock, seededRandom(name));
    this.#queues.set(url, this.#queues.get(url) ?? created());
    return url;
  }

  messages(queueUrl: string): readonly StoredMessage[] {
    return this.#queues.get(queueUrl)?.messages ?? [];
  }

  /** Epoch ms of the server's clock. */
  now(): number {
    return this.#clock.now();
  }

  /**
   * The next request of this action waits. Resolves with what lets it go on, when it has arrived.
   */
  holdNext(action: string): Promise<() => void> {
    return new Promise((arrive) => this.#held.set(action, arrive));
  }

  /** Moves the clock, which makes messages visible. */
  async advance(ms: number): Promise<void> {
    await this.#clock.advance(ms);
    for (const queue of this.#queues.values()) queue.wake();
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const action = String(request.headers["x-amz-target"]).replace("AmazonSQS.", "");
    let text = "";
    for await (const chunk of request.setEncoding("utf8")) text += chunk;
    try {
      if (this.failNext > 0) {
        this.failNext--;
        throw new SqsError("ServiceUnavailable", "try again later");
      }
      const input = JSON.parse(text) as Input;
      this.requests.push({ action, input });
      await this.#hold(action);
      const result = await this.#run(action, input, request);
      response.setHeader("content-type", "application/x-amz-json-1.0").end(JSON.stringify(result));
    } catch (error) {
      const { code, message } = error as SqsError;
      response.statusCode = code === "ServiceUnavailable" ? 503 : 400;
      const type = `com.amazonaws.sqs#${code}`;
      response.setHeader("content-type", "application/x-amz-json-1.0");
      response.end(JSON.stringify({ __type: type, message }));
    }
  }

  async #hold(action: string): Promise<void> {
    const arrive = this.#held.get(action);
    this.#held.delete(action);
    if (arrive !== undefined) await new Promise<void>((resolve) => arrive(resolve));
  }

  #run(action: string, input: Input, request: IncomingMessage): object | Promise<object> {
    const queue = this.#queues.get(String(input["QueueUrl"]));
    if (queue === undefined) throw new SqsError("QueueDoesNotExist", "no such queue");
    switch (action) {
      case "SendMessage": {
        const { id, body } = queue.send(input);
        return { MessageId: id, MD5OfMessageBody: md5(body) };
      }
      case "ReceiveMessage":
        return this.#receive(queue, input, request);
      case "DeleteMessageBatch":
        return batchResult(input["Entries"], (entry) =>
          queue.delete(String(entry["ReceiptHandle"])),
        );
      case "ChangeMessageVisibility":
        queue.changeVisibility(input);
        return {};
      case "ChangeMessageVisibilityBatch":
        return batchResult(input["Entries"], (entry) => queue.changeVisibility(entry));
      default:
        throw new SqsError("InvalidAction", action);
    }
  }

  /** A long poll ends with its connection. */
  async #receive(queue: MemoryQueue, input: Input, request: IncomingMessage): Promise<object> {
    const closed = new AbortController();
    const abort = () => closed.abort();
    request.socket.once("close", abort);
    const messages = await queue.receive(input, closed.signal);
    request.socket.off("close", abort);
    return {
      Messages: messages.map((message) => ({
        ...receivedMessage(message),
        MD5OfBody: md5(message.body),
      })),
    };
  }
}

function md5(text: string): string {
  return createHash("md5").update(text).digest("hex");
}
