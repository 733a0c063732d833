/**
 * Wire log: an HTTP target that records every request of a fleet: task, attempt, arrival, end, and how
 * many requests were open at once. It measures what the nodes did, not what they say they did.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Random, seededRandom } from "@redrive/core";

export interface WireRequest {
  readonly taskId: string;
  readonly attempt: number;
  readonly path: string;
  /** Epoch ms. The servers and the tests share one machine, so this is the store's clock too. */
  readonly at: number;
  /** Undefined while it is open. */
  endedAt: number | undefined;
  /** Undefined if the sender closed the connection first. */
  status: number | undefined;
}

export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: at once. */
  readonly afterMs?: number;
}

export type Responder = (request: WireRequest, random: Random) => Reply;

export class WireLog {
  readonly requests: WireRequest[] = [];
  /** The largest number of requests that were open at once. */
  maxOpen = 0;
  origin = "";
  respond: Responder;
  readonly #server: Server;
  readonly #random = seededRandom("wire log");
  #open = 0;

  constructor(respond: Responder = () => ({ status: 200 })) {
    this.respond = respond;
    this.#server = createServer((request, response) => this.#receive(request, response));
  }

  async listen(): Promise<void> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.origin = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  arrivedAfter(at: number): readonly WireRequest[] {
    return this.requests.filter((request) => request.at > at);
  }

  countsByTask(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const { taskId } of this.requests) counts.set(taskId, (counts.get(taskId) ?? 0) + 1);
    return counts;
  }

  /** Pairs of requests of one task that were open at the same time. */
  overlaps(): readonly (readonly [WireRequest, WireRequest])[] {
    return [...groupByTask(this.requests).values()].flatMap((list) =>
      list.flatMap((later, at) =>
        list
          .slice(0, at)
          .filter(({ endedAt = Number.POSITIVE_INFINITY }) => endedAt > later.at)
          .map((earlier) => [earlier, later] as const),
      ),
    );
  }

  #receive(request: IncomingMessage, response: ServerResponse): void {
    const entry: WireRequest = {
      taskId: String(request.headers["redrive-task-id"]),
      attempt: Number(request.headers["redrive-attempt"]),
      path: request.url ?? "",
      at: Date.now(),
      endedAt: undefined,
      status: undefined,
    };
    this.requests.push(entry);
    this.maxOpen = Math.max(this.maxOpen, ++this.#open);
    const { status, headers = {}, afterMs = 0 } = this.respond(entry, this.#random);
    const end = () => {
      if (entry.endedAt !== undefined) return;
      entry.endedAt = Date.now();
      this.#open--;
    };
    // The sender may close the connection first.
    response.on("close", end);
    request.resume();
    request.on("end", () => {
      setTimeout(() => {
        if (response.destroyed) return;
        entry.status = status;
        // The slot is free for the sender as soon as the response is written.
        end();
        response.writeHead(status, headers).end();
      }, afterMs);
    });
  }
}

function groupByTask(requests: readonly WireRequest[]): Map<string, WireRequest[]> {
  const groups = new Map<string, WireRequest[]>();
  for (const request of requests) {
    const group = groups.get(request.taskId) ?? [];
    group.push(request);
    groups.set(request.taskId, group);
  }
  return groups;
}
