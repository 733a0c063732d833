/**
 * Event streams: sends the events of this node to the readers of `GET /events`. A reader has only a
 * position in the ring of events, so a slow one needs no memory: it continues when its connection has
 * drained, and gets a `reset` if the ring has moved past it.
 */
import type { ServerResponse } from "node:http";
import type { Cancel, Clock } from "@redrive/core";
import type { EngineEvent, EngineEvents } from "../engine/events.ts";
import { serviceError } from "../model/errors.ts";

/** Readers of one node. */
const MAX_STREAMS = 200;

/** Events that one reader gets per turn of the event loop: about two milliseconds. */
const SLICE = 200;

/** A closed key ends its streams, and a silent stream gets a heartbeat after this many checks. */
const CHECK_MS = 2000;
const HEARTBEAT_CHECKS = 7;

/** How long a browser waits before it reconnects. */
const RECONNECT_MS = 1000;

interface StreamOptions {
  /** Whether the reader may see the event and has asked for it. */
  readonly isWanted: (event: EngineEvent) => boolean;
  /** The last event that the reader has; undefined: it wants only new events. */
  readonly lastEventId: string | undefined;
  /** Whether the key of the reader is still valid. */
  readonly isLive: () => boolean;
}

interface Stream extends Omit<StreamOptions, "lastEventId"> {
  readonly response: ServerResponse;
  /** The number of the last event that was considered. */
  position: number;
  /** The connection has taken everything so far. */
  isDrained: boolean;
  /** Checks since something was written. */
  silent: number;
}

export class EventStreams {
  readonly #clock: Clock;
  readonly #events: EngineEvents;
  readonly #streams = new Set<Stream>();
  /** Undefined while nobody reads. */
  #stopListening: Cancel | undefined;
  #cancelCheck: Cancel | undefined;
  #isPumping = false;
  #isStopped = false;

  constructor(clock: Clock, events: EngineEvents) {
    this.#clock = clock;
    this.#events = events;
  }

  get size(): number {
    return this.#streams.size;
  }

  /** Throws `TOO_MANY_REQUESTS` if the node has no room for another reader. */
  assertRoom(): void {
    if (this.#streams.size < MAX_STREAMS && !this.#isStopped) return;
    const text = `the node has ${MAX_STREAMS} readers of events, which is the limit`;
    throw serviceError("TOO_MANY_REQUESTS", text);
  }

  /** Sends events until the connection ends. The headers of the response are written already. */
  add(response: ServerResponse, { lastEventId, ...options }: StreamOptions): void {
    const { latest } = this.#events;
    const known = lastEventId === undefined ? latest : this.#events.numberOf(lastEventId);
    const position = known ?? latest;
    const stream = { ...options, response, position, isDrained: true, silent: 0 };
    response.once("close", () => this.#remove(stream));
    response.on("drain", () => {
      stream.isDrained = true;
      this.#request();
    });
    this.#streams.add(stream);
    this.#stopListening ??= this.#events.listen(() => this.#request());
    // The position itself, so that a reader that is cut off before its first event misses none.
    const start =
      known === undefined ? this.#resetText("unknown-id", latest) : this.#positionText(position);
    this.#write(stream, `retry: ${RECONNECT_MS}\n${start}`);
    this.#cancelCheck ??= this.#scheduleCheck();
    this.#request();
  }

  #remove(stream: Stream): void {
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return;
    this.#stopListening?.();
    this.#stopListening = undefined;
  }

  /** Ends every stream. */
  stop(): void {
    this.#isStopped = true;
    this.#stopListening?.();
    this.#cancelCheck?.();
    for (const { response } of this.#streams) response.end();
  }

  /** The events of a turn are sent together at its end. */
  #request(): void {
    if (this.#isPumping || this.#streams.size === 0) return;
    this.#isPumping = true;
    this.#clock.endOfTurn(() => {
      this.#isPumping = false;
      let hasMore = false;
      for (const stream of this.#streams) hasMore = this.#send(stream) || hasMore;
      if (hasMore) this.#request();
    });
  }

  /** Sends some events. True: there are more, and the connection takes them. */
  #send(stream: Stream): boolean {
    if (!stream.isDrained || stream.response.destroyed) return false;
    const found = this.#events.read(stream.position, SLICE);
    if (found === undefined) {
      stream.position = this.#events.latest;
      this.#write(stream, this.#resetText("too-slow", stream.position));
      return false;
    }
    stream.position += found.length;
    const text = found.filter(stream.isWanted).map(eventText).join("");
    if (text !== "") this.#write(stream, text);
    return stream.isDrained && stream.position < this.#events.latest;
  }

  #write(stream: Stream, text: string): void {
    stream.silent = 0;
    stream.isDrained = stream.response.write(text);
  }

  #scheduleCheck(): Cancel {
    return this.#clock.alarm(CHECK_MS, () => this.#check(), true);
  }

  #check(): void {
    for (const stream of this.#streams) {
      if (!stream.isLive()) stream.response.end();
      else if (++stream.silent >= HEARTBEAT_CHECKS && stream.isDrained) {
        this.#write(stream, `: heartbeat\n${this.#positionText(stream.position)}`);
      }
    }
    this.#cancelCheck = this.#streams.size > 0 ? this.#scheduleCheck() : undefined;
  }

  /** Only an id: the reader keeps it for `Last-Event-ID` and dispatches nothing. */
  #positionText(position: number): string {
    return `id: ${this.#events.idOf(position)}\n\n`;
  }

  #resetText(reason: "unknown-id" | "too-slow", position: number): string {
    return `id: ${this.#events.idOf(position)}\nevent: reset\ndata: ${JSON.stringify({ reason })}\n\n`;
  }
}

/** JSON has no line breaks, so one data line is enough. */
function eventText(event: EngineEvent): string {
  return `id: ${event.id}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}
