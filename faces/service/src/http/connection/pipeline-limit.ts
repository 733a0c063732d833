/**
 * Pipeline limit: bounds the requests that a connection sends before it reads the responses. Node
 * keeps every unsent response in memory, and parses all requests of up to 64 KiB of input before it
 * stops reading. So a few requests of a connection run at once, a few more wait, and a connection
 * that sends still more is closed.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** Requests of one connection that run at once, besides the one whose response is sent first. */
export const MAX_AT_ONCE = 16;

/** Requests of one connection that wait until earlier responses are sent. */
export const MAX_WAITING = 100;

/** Waiting requests of all connections. Each costs a few kilobytes. */
export const MAX_WAITING_IN_ALL = 4096;

/** A connection with more unsent bytes starts its requests one by one. */
const MAX_UNSENT_BYTES = 64 * 1024;

/** A connection that has pipelined requests. */
interface Pipeline {
  readonly socket: Socket;
  /** Responses that are not sent completely. */
  readonly running: Set<ServerResponse>;
  readonly waiting: ServerResponse[];
}

export class PipelineLimit {
  readonly #handle: RequestHandler;
  readonly #pipelines = new WeakMap<Socket, Pipeline>();

  /** Mutable state: the waiting requests of all connections. */
  #waiting = 0;

  constructor(handle: RequestHandler) {
    this.#handle = handle;
  }

  /** A handler for the server's `request` event. */
  readonly handle: RequestHandler = (request, response) => {
    // Node gives the socket to a response at once if no response precedes it.
    if (response.socket !== null) this.#handle(request, response);
    else this.#addPipelined(request.socket, response);
  };

  #addPipelined(socket: Socket, response: ServerResponse): void {
    // Node parses the rest of the input even after the connection is closed.
    if (socket.destroyed) return;
    const pipeline = this.#pipelineOf(socket);
    if (pipeline.waiting.length === 0 && hasRoom(pipeline)) this.#start(pipeline, response);
    else if (pipeline.waiting.length >= MAX_WAITING || this.#waiting >= MAX_WAITING_IN_ALL) {
      socket.destroy();
    } else {
      this.#waiting++;
      pipeline.waiting.push(response);
      socket.pause();
    }
  }

  #pipelineOf(socket: Socket): Pipeline {
    const known = this.#pipelines.get(socket);
    if (known !== undefined) return known;
    const pipeline: Pipeline = { socket, running: new Set(), waiting: [] };
    this.#pipelines.set(socket, pipeline);
    socket.once("close", () => {
      this.#waiting -= pipeline.waiting.length;
      pipeline.waiting.length = 0;
    });
    return pipeline;
  }

  #start(pipeline: Pipeline, response: ServerResponse): void {
    pipeline.running.add(response);
    response.once("close", () => {
      pipeline.running.delete(response);
      this.#startWaiting(pipeline);
    });
    this.#handle(response.req, response);
  }

  #startWaiting(pipeline: Pipeline): void {
    const { socket, waiting } = pipeline;
    if (waiting.length === 0) return;
    while (hasRoom(pipeline)) {
      const next = waiting.shift();
      if (next === undefined) break;
      this.#waiting--;
      this.#start(pipeline, next);
    }
    if (waiting.length === 0) socket.resume();
  }
}

/** One request may always run, so that its end starts the next one. */
function hasRoom({ socket, running }: Pipeline): boolean {
  if (running.size === 0) return true;
  if (running.size >= MAX_AT_ONCE) return false;
  let unsent = socket.writableLength;
  for (const response of running) unsent += response.writableLength;
  return unsent < MAX_UNSENT_BYTES;
}
