/**
 * SQS: a local server that speaks the JSON protocol of Amazon SQS, as far as the adapter uses it:
 * receives with long polling, visibility timeouts with their limit of 12 hours, receive counts and
 * receipt handles that end with the next receive. The test moves its clock.
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

interface Stored {
  readonly id: string;
  readonly body: string;
  readonly attributes: object;
  readonly systemAttributes: Record<string, string>;
  receives: number;
  firstReceivedAt: number;
  receivedAt: number;
  visibleAt: number;
  handle: string;
}

type Input = Readonly<Record<string, unknown>>;

const MAX_VISIBILITY_SECONDS = 43_200;

/** An error of the protocol. */
class SqsError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

export class SqsServer {
  /** Requests by their action. */
  readonly requests: { readonly action: string; readonly input: Input }[] = [];
  /** The next requests fail with this status. */
  failNext = 0;
  readonly #server: Server;
  readonly #queues = new Map<string, Map<string, Stored>>();
  readonly #polls = new Set<() => void>();
  #now = Date.now();
  #ids = 0;

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

  /** The URL of an empty queue. */
  queueUrl(name: string): string {
    const url = `${this.endpoint}/000000000000/${name}`;
    this.#queues.set(url, this.#queues.get(url) ?? new Map());
    return url;
  }

  messages(queueUrl: string): readonly Stored[] {
    return [...(this.#queues.get(queueUrl)?.values() ?? [])];
  }

  /** Moves the clock, which makes messages visible. */
  advance(ms: number): void {
    this.#now += ms;
    this.#wake();
  }

  async close(): Promise<void> {
    for (const end of this.#polls) end();
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

  #run(action: string, input: Input, request: IncomingMessage): object | Promise<object> {
    const queue = this.#queues.get(String(input["QueueUrl"]));
    if (queue === undefined) throw new SqsError("QueueDoesNotExist", "no such queue");
    switch (action) {
      case "SendMessage":
        return this.#send(queue, input);
      case "ReceiveMessage":
        return this.#receive(queue, input, request);
      case "DeleteMessageBatch":
        return this.#deleteBatch(queue, input);
      case "ChangeMessageVisibility":
        return this.#changeVisibility(queue, input);
      default:
        throw new SqsError("InvalidAction", action);
    }
  }

  #send(queue: Map<string, Stored>, input: Input): object {
    const id = `id-${++this.#ids}`;
    const body = String(input["MessageBody"]);
    const group = input["MessageGroupId"];
    queue.set(id, {
      id,
      body,
      attributes: (input["MessageAttributes"] as object | undefined) ?? {},
      systemAttributes: group === undefined ? {} : { MessageGroupId: String(group) },
      receives: 0,
      firstReceivedAt: 0,
      receivedAt: 0,
      visibleAt: this.#now,
      handle: "",
    });
    this.#wake();
    return { MessageId: id, MD5OfMessageBody: md5(body) };
  }

  #wake(): void {
    for (const check of [...this.#polls]) check();
  }

  async #receive(
    queue: Map<string, Stored>,
    input: Input,
    request: IncomingMessage,
  ): Promise<object> {
    const take = () => this.#take(queue, input);
    let messages = take();
    if (messages.length > 0 || Number(input["WaitTimeSeconds"] ?? 0) === 0) {
      return { Messages: messages };
    }
    // A long poll ends when a message arrives, or with its connection.
    await new Promise<void>((resolve) => {
      const check = () => {
        messages = request.socket.destroyed ? [] : take();
        if (messages.length === 0 && !request.socket.destroyed) return;
        this.#polls.delete(check);
        resolve();
      };
      this.#polls.add(check);
      request.socket.once("close", check);
    });
    return { Messages: messages };
  }

  #take(queue: Map<string, Stored>, input: Input): object[] {
    const count = Number(input["MaxNumberOfMessages"] ?? 1);
    const visible = [...queue.values()].filter(({ visibleAt }) => visibleAt <= this.#now);
    return visible.slice(0, count).map((stored) => {
      stored.receives++;
      stored.receivedAt = this.#now;
      if (stored.receives === 1) stored.firstReceivedAt = this.#now;
      stored.visibleAt = this.#now + Number(input["VisibilityTimeout"] ?? 30) * 1000;
      stored.handle = `${stored.id}/${stored.receives}`;
      return {
        MessageId: stored.id,
        ReceiptHandle: stored.handle,
        Body: stored.body,
        MD5OfBody: md5(stored.body),
        MessageAttributes: stored.attributes,
        Attributes: {
          ...stored.systemAttributes,
          ApproximateReceiveCount: String(stored.receives),
          ApproximateFirstReceiveTimestamp: String(stored.firstReceivedAt),
        },
      };
    });
  }

  #deleteBatch(queue: Map<string, Stored>, input: Input): object {
    const entries = input["Entries"] as { Id: string; ReceiptHandle: string }[];
    for (const { ReceiptHandle: handle } of entries) queue.delete(handle.split("/")[0] ?? "");
    return { Successful: entries.map(({ Id }) => ({ Id })), Failed: [] };
  }

  #changeVisibility(queue: Map<string, Stored>, input: Input): object {
    const handle = String(input["ReceiptHandle"]);
    const stored = queue.get(handle.split("/")[0] ?? "");
    const seconds = Number(input["VisibilityTimeout"]);
    if (stored === undefined || stored.handle !== handle) {
      throw new SqsError("ReceiptHandleIsInvalid", "the receipt handle has expired");
    }
    if (!Number.isInteger(seconds) || seconds < 0 || seconds > MAX_VISIBILITY_SECONDS) {
      throw new SqsError("InvalidParameterValue", `VisibilityTimeout ${seconds} is out of range`);
    }
    const visibleAt = this.#now + seconds * 1000;
    if (visibleAt > stored.receivedAt + MAX_VISIBILITY_SECONDS * 1000) {
      throw new SqsError("InvalidParameterValue", "Total VisibilityTimeout is beyond the limit");
    }
    stored.visibleAt = visibleAt;
    this.#wake();
    return {};
  }
}

function md5(text: string): string {
  return createHash("md5").update(text).digest("hex");
}
