/**
 * Held response: keeps what a handler writes to a Node response until it is complete, or too large to
 * keep. To the handler the response looks as if it were being sent.
 */
import type { HandlerRun, PlainResponse } from "./interceptor.ts";
import { joined } from "./node-body.ts";
import { type HeaderList, headersOf, isClosed, setHeaders, valuesOf } from "./node-response.ts";
import type { NodeHeaderValue, NodeResponse } from "./node-types.ts";

/** The functions of a Node response that are replaced, as handlers call them. */
interface Writer {
  writeHead(...values: unknown[]): unknown;
  write(...values: unknown[]): boolean;
  end(...values: unknown[]): unknown;
  flushHeaders(): void;
  destroy(error?: unknown): unknown;
}

/** Where there are Node responses, there is `Buffer`. */
interface Runtime {
  Buffer: { from(text: string, encoding?: string): Uint8Array };
}

/**
 * Holds the response from now on. `run` learns how it ends. The replaced functions stay in place and
 * become transparent, because a middleware may have wrapped them meanwhile.
 */
export function holdResponse(response: NodeResponse, run: HandlerRun): HeldResponse {
  const { writeHead, write, end, flushHeaders, destroy } = response as unknown as Writer;
  const held = new HeldResponse(response, run, {
    writeHead: writeHead.bind(response),
    write: write.bind(response),
    end: end.bind(response),
    flushHeaders: flushHeaders.bind(response),
    destroy: destroy.bind(response),
  });
  const writer: Writer = {
    writeHead: (...values) => held.writeHead(values),
    write: (...values) => held.write(values),
    end: (...values) => held.end(values),
    flushHeaders: () => held.flushHeaders(),
    destroy: (error) => held.destroy(error),
  };
  Object.assign(response, writer);
  Object.defineProperties(response, {
    headersSent: { configurable: true, get: () => held.hasHead },
    writableEnded: { configurable: true, get: () => held.hasEnded },
  });
  return held;
}

export class HeldResponse {
  hasHead = false;
  hasEnded = false;
  #isOpen = false;
  readonly #response: NodeResponse;
  readonly #run: HandlerRun;
  readonly #connection: Writer;
  /** What was set before the handler ran. It is not part of the handler's response. */
  readonly #earlier: HeaderList;
  readonly #chunks: Uint8Array[] = [];
  #length = 0;

  constructor(response: NodeResponse, run: HandlerRun, connection: Writer) {
    this.#response = response;
    this.#run = run;
    this.#connection = connection;
    this.#earlier = headersOf(response);
  }

  writeHead(values: readonly unknown[]): unknown {
    if (this.#isOpen) return this.#connection.writeHead(...values);
    const [status, ...rest] = values;
    this.hasHead = true;
    this.#response.statusCode = status as number;
    if (typeof rest[0] === "string") this.#response.statusMessage = rest.shift() as string;
    setHeaders(this.#response, headerList(rest[0]));
    return this.#response;
  }

  flushHeaders(): void {
    if (this.#isOpen) this.#connection.flushHeaders();
    this.hasHead = true;
  }

  write(values: readonly unknown[]): boolean {
    if (this.#isOpen) return this.#connection.write(...values);
    this.#keep(values);
    const callback = callbackIn(values);
    if (callback !== undefined) void Promise.resolve().then(callback);
    return this.#length <= this.#run.holdBytes || this.#open();
  }

  end(values: readonly unknown[]): unknown {
    if (this.#isOpen) return this.#connection.end(...values);
    if (this.hasEnded) return this.#response;
    this.#keep(values);
    this.hasEnded = true;
    const callback = callbackIn(values);
    if (this.#length <= this.#run.holdBytes) void this.#finish(callback);
    else {
      this.#open();
      this.#connection.end(callback);
    }
    return this.#response;
  }

  /**
   * The server gives the response up, as `pipeline` does when its source fails. Counts as a handler that
   * threw, except after the client has closed the connection: Fastify then destroys its stream and the
   * response, and the handler may have had its effect.
   */
  destroy(error: unknown): unknown {
    if (!this.hasEnded && !this.#isOpen && !isClosed(this.#response)) {
      this.hasEnded = true;
      this.#reveal();
      void this.#run.failed(error);
    }
    return this.#connection.destroy(error);
  }

  /** The arguments of `write` and `end`: a chunk, the encoding of a text, a callback; each optional. */
  #keep([chunk, encoding]: readonly unknown[]): void {
    this.hasHead = true;
    const bytes = typeof chunk === "string" ? bytesOfText(chunk, encoding) : chunk;
    if (!(bytes instanceof Uint8Array)) return;
    // A handler may use its buffer again after the write. `slice` of a Buffer does not copy.
    this.#chunks.push(bytes === chunk ? new Uint8Array(bytes) : bytes);
    this.#length += bytes.length;
  }

  /** Sends what was kept. From now on the handler writes to the connection. */
  #open(): boolean {
    this.#reveal();
    const { statusCode } = this.#response;
    this.#response.once("close", () => this.#run.sent(statusCode));
    let hasRoom = true;
    for (const chunk of this.#chunks.splice(0)) hasRoom = this.#connection.write(chunk);
    return hasRoom;
  }

  async #finish(callback: (() => void) | undefined): Promise<void> {
    const { statusCode: status } = this.#response;
    const body = joined(this.#chunks, this.#length);
    const complete = { status, headers: this.#newHeaders(), body };
    const answer = await this.#run.respond(complete);
    if (answer !== complete) this.#replaceHead(answer);
    this.#reveal();
    this.#connection.end(answer.body, callback);
  }

  /** The handler threw. Calls `failed`, unless the handler has ended its response before. */
  async fail(error: unknown): Promise<void> {
    if (this.hasEnded || this.#isOpen) throw error;
    this.hasEnded = true;
    const answer = await this.#run.failed(error);
    this.#reveal();
    if (answer === undefined) throw error;
    this.#replaceHead(answer);
    this.#connection.end(answer.body);
  }

  /** Headers that the handler has set or changed. */
  #newHeaders(): HeaderList {
    const earlier = new Set(this.#earlier.map(textOf));
    return headersOf(this.#response).filter((header) => !earlier.has(textOf(header)));
  }

  /** Removes everything that the handler has set, because another response is sent. */
  #replaceHead({ status, headers }: PlainResponse): void {
    for (const name of this.#response.getHeaderNames()) this.#response.removeHeader(name);
    setHeaders(this.#response, [...this.#earlier, ...headers]);
    this.#response.statusCode = status;
    this.#response.statusMessage = undefined;
  }

  #reveal(): void {
    this.#isOpen = true;
    const response = this.#response as { headersSent?: boolean; writableEnded?: boolean };
    delete response.headersSent;
    delete response.writableEnded;
  }
}

function bytesOfText(text: string, encoding: unknown): Uint8Array {
  const { Buffer } = globalThis as unknown as Runtime;
  return Buffer.from(text, typeof encoding === "string" ? encoding : undefined);
}

function textOf([name, value]: readonly [string, string]): string {
  return `${name.toLowerCase()}: ${value}`;
}

function callbackIn(values: readonly unknown[]): (() => void) | undefined {
  return values.find((value) => typeof value === "function") as (() => void) | undefined;
}

/** `writeHead` takes an object, a list of pairs, or a flat list of names and values. */
function headerList(headers: unknown): HeaderList {
  return headerEntries(headers).flatMap(([name, value]) =>
    valuesOf(value).map((one) => [name, one] as const),
  );
}

function headerEntries(headers: unknown): readonly (readonly [string, NodeHeaderValue])[] {
  if (!Array.isArray(headers)) return Object.entries(headers ?? {});
  if (headers.every(Array.isArray)) return headers as unknown as [string, NodeHeaderValue][];
  return headers.flatMap((name, index) =>
    index % 2 === 0 ? [[String(name), headers[index + 1] as NodeHeaderValue] as const] : [],
  );
}
