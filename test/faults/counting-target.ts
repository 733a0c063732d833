/** Counting target: an HTTP server that fails a share of its requests and counts all of them. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type Random, seededRandom } from "@redrive/core";

export class CountingTarget {
  readonly #server: Server;
  readonly #random: Random = seededRandom("counting target");
  /** Requests by task. */
  readonly calls = new Map<string, number>();
  /** Requests by task that came after a successful one. */
  repeats = 0;
  readonly #succeeded = new Set<string>();
  url = "";

  constructor(failureShare: number) {
    this.#server = createServer((request, response) => {
      const taskId = String(request.headers["redrive-task-id"]);
      this.calls.set(taskId, (this.calls.get(taskId) ?? 0) + 1);
      if (this.#succeeded.has(taskId)) this.repeats++;
      const failed = this.#random.next() < failureShare;
      request.resume();
      request.on("end", () => {
        if (!failed) this.#succeeded.add(taskId);
        response.writeHead(failed ? 503 : 200).end();
      });
    });
  }

  async listen(): Promise<void> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
