/**
 * On Node: what the adapters of frameworks on `node:http` share: they ask the interceptor, send its
 * answer or hold the response of the handler.
 */

import { reportError } from "../call/call-event.ts";
import {
  type HandlerRun,
  type Interceptor,
  isRun,
  type PlainResponse,
  type ServedRequest,
} from "./interceptor.ts";
import {
  joined,
  type NodeHeaderValue,
  type NodeRequest,
  type NodeResponse,
  nodeBody,
} from "./node-http.ts";
import { answerToError, isNotExecutedHeader, NotExecuted } from "./problem.ts";

/**
 * Undefined if the interceptor has answered the request. `beforeAnswer` tells the framework that it must
 * not answer any more.
 */
export async function beginOnNode<Native>(
  interceptor: Interceptor<Native>,
  request: ServedRequest<Native>,
  response: NodeResponse,
  beforeAnswer?: () => void,
): Promise<NodeRun | undefined> {
  const begun = await beginOrMark(interceptor, request, response);
  if (!isRun(begun)) {
    beforeAnswer?.();
    answerOnNode(response, begun);
    return undefined;
  }
  return begun.holdBytes > 0 ? holdResponse(response, begun) : sendResponse(response, begun);
}

/** After an error of the interceptor, the framework answers, and the handler does not run. */
async function beginOrMark<Native>(
  interceptor: Interceptor<Native>,
  request: ServedRequest<Native>,
  response: NodeResponse,
): Promise<PlainResponse | HandlerRun> {
  try {
    return await interceptor.begin(request);
  } catch (error) {
    markRefused(response);
    throw error;
  }
}

/**
 * A response that is sent as it is written ends when its connection closes or takes the next one. After a
 * handler that threw, `sent` or `gone` follows `failed`; the run ignores it.
 */
function sendResponse(response: NodeResponse, run: HandlerRun): NodeRun {
  onClose(response, () => {
    if (response.writableEnded) run.sent(response.statusCode);
    else run.gone(false);
  });
  return {
    run,
    async fail(error) {
      const answer = answerToError(error);
      const own = await run.failed(error, answer);
      const sendable = own ?? (answer.notExecuted ? answer : undefined);
      if (sendable === undefined || response.headersSent) throw error;
      answerOnNode(response, sendable);
    },
    finish: () => undefined,
  };
}

/** `native` is the request of the framework, `request` and `response` are those of Node. */
export function servedNode<Native>(
  native: Native,
  request: NodeRequest,
  response: NodeResponse,
  more: { readonly target?: string | undefined; body?: ServedRequest["body"] } = {},
): ServedRequest<Native> {
  const { target = request.url ?? "/", body = (maxBytes) => nodeBody(request, maxBytes) } = more;
  return {
    method: request.method ?? "GET",
    target,
    header(name) {
      const value = request.headers[name.toLowerCase()];
      return typeof value === "object" ? value.join(", ") : value;
    },
    body,
    onGone: (listener) => onClose(response, listener),
    native,
  };
}

// A held response keeps what a handler writes to a Node response until it is complete, or too large to keep.
// To the handler the response looks as if it were being sent.

/** A handler that may run. */
interface NodeRun {
  readonly run: HandlerRun;
  /** For a handler that threw. Throws the error again if nobody has an answer. */
  fail(error: unknown): Promise<void>;
  /** For a handler that has returned. Its response may end later. */
  finish(): void;
}

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
function holdResponse(response: NodeResponse, run: HandlerRun): HeldResponse {
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
  held.cover();
  onClose(response, () => held.close());
  return held;
}

/** `held`: nothing was sent. `streamed`: sent as the handler writes it. `done`: the run has its end. */
type Mode = "held" | "streamed" | "done";

class HeldResponse implements NodeRun {
  readonly run: HandlerRun;
  hasHead = false;
  hasEnded = false;
  #mode: Mode = "held";
  /** The handler has returned. */
  #isOver = false;
  #isGone = false;
  #isNotExecuted = false;
  readonly #response: NodeResponse;
  readonly #connection: Writer;
  /** What was set before the handler ran. It is not part of the handler's response. */
  readonly #earlier: HeaderList;
  readonly #chunks: Uint8Array[] = [];
  readonly #covered = new Map<string, PropertyDescriptor | undefined>();
  #length = 0;

  constructor(response: NodeResponse, run: HandlerRun, connection: Writer) {
    this.run = run;
    this.#response = response;
    this.#connection = connection;
    this.#earlier = headersOf(response);
  }

  writeHead(values: readonly unknown[]): unknown {
    if (this.#mode !== "held") return this.#connection.writeHead(...values);
    const [status, ...rest] = values;
    this.hasHead = true;
    this.#response.statusCode = status as number;
    if (typeof rest[0] === "string") this.#response.statusMessage = rest.shift() as string;
    const entries = headerEntries(rest[0]);
    this.#isNotExecuted ||= entries.some(([, value]) => isNotExecutedHeader(value));
    setHeaders(this.#response, headerList(entries));
    return this.#response;
  }

  flushHeaders(): void {
    this.hasHead = true;
    if (this.#mode === "held" && this.run.holdBytes > 0) return;
    if (this.#mode === "held") this.#stream();
    this.#connection.flushHeaders();
  }

  write(values: readonly unknown[]): boolean {
    if (this.#mode !== "held") return this.#connection.write(...values);
    this.#keep(values);
    const callback = callbackIn(values);
    if (callback !== undefined) void Promise.resolve().then(callback);
    return this.#length <= this.run.holdBytes || this.#stream();
  }

  end(values: readonly unknown[]): unknown {
    if (this.#mode === "streamed") this.#endStream();
    if (this.#mode !== "held") return this.#connection.end(...values);
    if (this.hasEnded) return this.#response;
    this.#keep(values);
    this.hasEnded = true;
    const callback = callbackIn(values);
    if (this.#length <= this.run.holdBytes) void this.#finish(callback);
    else {
      this.#stream();
      this.#connection.end(callback);
      this.#endStream();
    }
    return this.#response;
  }

  /**
   * The server gives the response up: `pipeline` when its source fails, and Fastify when the client is gone.
   * Nobody will complete it.
   */
  destroy(error: unknown): unknown {
    if (this.#mode !== "done" && !this.hasEnded) this.#giveUp();
    return this.#connection.destroy(error);
  }

  /** The connection is closed. A response that is complete has been sent, or its end is on the way. */
  close(): void {
    this.#isGone = true;
    if (this.#mode === "done") return;
    if (!this.hasEnded) this.run.gone(this.#isOver, this.#part());
    else if (this.#mode === "streamed") this.#endStream();
  }

  /** The handler has returned. If its client is gone too, nobody will complete the response. */
  finish(): void {
    this.#isOver = true;
    if (this.#isGone && !this.hasEnded) this.run.gone(true, this.#part());
  }

  /**
   * The handler threw. After a response, the error has no place to go but the log. After a part of it, the
   * client may have caused the error, by leaving.
   */
  async fail(error: unknown): Promise<void> {
    if (!(error instanceof NotExecuted)) reportError(error);
    if (this.#mode === "done" || this.hasEnded) return;
    const isCutOff = this.#mode === "streamed" || (this.#isGone && this.hasHead);
    if (!isCutOff) return await this.#answerError(error);
    this.#giveUp();
    this.#connection.destroy(error);
  }

  async #answerError(error: unknown): Promise<void> {
    this.hasEnded = true;
    const answer = answerToError(error);
    const sent = (await this.run.failed(error, answer)) ?? answer;
    this.#replaceHead(sent);
    this.#reveal("done");
    this.#connection.end(sent.body);
  }

  #giveUp(): void {
    const part = this.#part();
    this.hasEnded = true;
    this.#reveal("done");
    this.run.gone(true, part);
  }

  /** What the handler has written so far. */
  #part(): PlainResponse | undefined {
    return this.#mode === "held" && this.hasHead ? this.#content() : undefined;
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
  #stream(): boolean {
    this.#reveal("streamed");
    let hasRoom = true;
    for (const chunk of this.#chunks.splice(0)) hasRoom = this.#connection.write(chunk);
    return hasRoom;
  }

  /** Reports a streamed response once the handler has ended it and the connection has taken it. */
  #endStream(): void {
    this.hasEnded = true;
    if (!this.#isGone) return;
    this.#mode = "done";
    this.run.sent(this.#response.statusCode);
  }

  async #finish(callback: (() => void) | undefined): Promise<void> {
    const complete = this.#content();
    const answer = await this.run.respond(complete);
    if (answer !== complete) this.#replaceHead(answer);
    this.#reveal("done");
    this.#connection.end(answer.body, callback);
  }

  #content(): PlainResponse {
    const { statusCode: status } = this.#response;
    const headers = this.#newHeaders();
    const notExecuted =
      this.#isNotExecuted ||
      isRefused(this.#response) ||
      isNotExecutedHeader(this.#response.getHeader("Retry-After"));
    return { status, headers, body: joined(this.#chunks, this.#length), notExecuted };
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

  /** Shows the state of what is held, in place of the state of the connection. */
  cover(): void {
    const own = { headersSent: () => this.hasHead, writableEnded: () => this.hasEnded };
    for (const [name, get] of Object.entries(own)) {
      // An interceptor in front of this one may hold the response as well.
      this.#covered.set(name, Object.getOwnPropertyDescriptor(this.#response, name));
      Object.defineProperty(this.#response, name, { configurable: true, get });
    }
  }

  #reveal(mode: Mode): void {
    this.#mode = mode;
    for (const [name, descriptor] of this.#covered) {
      if (descriptor) Object.defineProperty(this.#response, name, descriptor);
      else delete (this.#response as unknown as Record<string, unknown>)[name];
    }
    this.#covered.clear();
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

type HeaderEntries = readonly (readonly [string, NodeHeaderValue])[];

function headerList(entries: HeaderEntries): HeaderList {
  return entries.flatMap(([name, value]) => valuesOf(value).map((one) => [name, one] as const));
}

/** `writeHead` takes an object, a list of pairs, or a flat list of names and values. */
function headerEntries(headers: unknown): HeaderEntries {
  if (!Array.isArray(headers)) return Object.entries(headers ?? {});
  if (headers.every(Array.isArray)) return headers as unknown as [string, NodeHeaderValue][];
  return headers.flatMap((name, index) =>
    index % 2 === 0 ? [[String(name), headers[index + 1] as NodeHeaderValue] as const] : [],
  );
}

// The headers of a Node response, and a complete one.

type HeaderList = PlainResponse["headers"];

/** The headers that are set now, with the names as they were written. */
function headersOf(response: NodeResponse): HeaderList {
  const names = response.getRawHeaderNames?.() ?? response.getHeaderNames();
  return names.flatMap((name) =>
    valuesOf(response.getHeader(name)).map((value) => [name, value] as const),
  );
}

function valuesOf(value: NodeHeaderValue | undefined): readonly string[] {
  if (value === undefined) return [];
  return typeof value === "object" ? value.map(String) : [String(value)];
}

/** Responses whose handler did not run, see `PlainResponse.notExecuted`. */
const refused = /* @__PURE__ */ new WeakSet<object>();

/**
 * Sends the answer of an interceptor. One in front of it learns whether the handler ran. Headers that are
 * set already stay, unless the answer has them.
 */
export function answerOnNode(response: NodeResponse, answer: PlainResponse): void {
  if (answer.notExecuted) markRefused(response);
  response.statusCode = answer.status;
  setHeaders(response, answer.headers);
  response.end(answer.body);
}

/** For a response that somebody else writes instead of the handler. */
function markRefused(response: NodeResponse): void {
  refused.add(response);
}

function isRefused(response: NodeResponse): boolean {
  return refused.has(response);
}

function setHeaders(response: NodeResponse, headers: HeaderList): void {
  const known = new Map<string, NodeHeaderValue>();
  for (const [name, value] of headers) {
    const earlier = known.get(name.toLowerCase());
    const all = earlier === undefined ? value : [...valuesOf(earlier), value];
    known.set(name.toLowerCase(), all);
    response.setHeader(name, all);
  }
}

/** Also calls the listener if the connection has closed before, because the event does not come again. */
function onClose(response: NodeResponse, listener: () => void): void {
  if (isClosed(response)) listener();
  else response.once("close", listener);
}

/** Whether the connection is closed. Node says so before it emits `close`. */
function isClosed({ destroyed, stream }: NodeResponse): boolean {
  return destroyed === true || stream?.destroyed === true;
}
