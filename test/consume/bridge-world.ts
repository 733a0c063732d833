/**
 * Bridge world: a service on a memory store, a target that records what it gets, and bridges between a
 * broker and the service.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { createClient } from "@redrive/service/client";
import { fakeTerminal, type Written } from "../../apps/cli/src/program.testing.ts";
import { type RunningService, startService } from "../../apps/cli/src/serve/running-service.ts";
import {
  type BridgeOptions,
  runBridge,
  type SourceOptions,
} from "../../apps/cli/src/service/run-bridge.ts";

export interface Arrived {
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface Bridge {
  readonly written: Written;
  stop(): Promise<void>;
}

export class BridgeWorld {
  readonly arrived: Arrived[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), "redrive-bridge-"));
  readonly #target = createServer((request, response) => {
    void buffer(request).then((body) => {
      this.arrived.push({ headers: request.headers, body });
      response.end();
    });
  });

  // Mutable state: a test stops and starts the service.
  #service: RunningService | undefined;
  #port = 0;

  async start(): Promise<void> {
    this.#target.listen(0, "127.0.0.1");
    await once(this.#target, "listening");
    await this.startService();
  }

  async startService(): Promise<void> {
    this.#service = await startService({
      host: "127.0.0.1",
      port: this.#port,
      store: "memory:",
      // A blob store belongs to one store, and a memory store is a new one.
      blobs: `file:${mkdtempSync(join(this.#folder, "blobs-"))}`,
    });
    this.#port = Number(new URL(this.#service.url).port);
  }

  async stopService(): Promise<void> {
    await this.#service?.stop();
  }

  async stop(): Promise<void> {
    await this.stopService();
    this.#target.closeAllConnections();
    this.#target.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** A bridge that has begun to read. */
  async bridge(
    source: Pick<SourceOptions, "from" | "queue"> & Partial<BridgeOptions>,
  ): Promise<Bridge> {
    const stop = new AbortController();
    const { terminal, written } = fakeTerminal();
    let begin: () => void = () => undefined;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const print = (text: string) => {
      terminal.print(text);
      begin();
    };
    const ended = runBridge(
      { ...terminal, print },
      createClient({ url: `http://127.0.0.1:${this.#port}` }),
      {
        targetUrl: `http://127.0.0.1:${(this.#target.address() as AddressInfo).port}/orders`,
        group: "bridge",
        forwardHeader: [],
        headers: {},
        labels: {},
        concurrency: 4,
        ...source,
      },
      stop.signal,
    );
    await Promise.race([begun, ended]);
    const end = async () => {
      stop.abort();
      await ended;
    };
    return { written, stop: end };
  }
}
