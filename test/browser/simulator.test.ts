/** The simulator in a worker of a real browser: the same seed gives the same trace as in Node. */
// needs: chromium
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { launchChromium } from "../servers/chromium.ts";
import { bundle } from "../size/bundle.ts";
import { hashes, results } from "./simulator-results.ts";

const WORKER = `import { results, hashes } from "./test/browser/simulator-results.ts";
postMessage({ hashes: hashes(), results: results() });`;

interface Posted {
  readonly hashes: Record<string, string>;
  readonly results: Record<string, string>;
}

/** Serves a page and the worker that it starts. */
async function serve(worker: string) {
  const server = createServer(({ url }, response) => {
    const isWorker = url === "/worker.js";
    response.setHeader("content-type", isWorker ? "text/javascript" : "text/html");
    response.end(isWorker ? worker : "<!doctype html><title>simulator</title>");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
}

function runWorker(): Promise<Posted> {
  return new Promise((resolve, reject) => {
    const worker = new Worker("/worker.js", { type: "module" });
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(message));
  });
}

/** A limit for hangs: everything runs twice, possibly on a busy machine. */
const MAX_MS = 300_000;

test(
  "every shipped scenario and every result is the same in Chromium and in Node",
  async () => {
    const { server, url } = await serve((await bundle(WORKER)).code);
    const browser = await launchChromium();
    try {
      const page = await browser.newPage();
      await page.goto(url);
      const posted = await page.evaluate(runWorker);
      expect(posted.hashes).toEqual(hashes());
      expect(Object.keys(posted.hashes).length).toBeGreaterThan(10);
      expect(posted.results).toEqual(results());
    } finally {
      await browser.close();
      server.closeAllConnections();
      server.close();
    }
  },
  MAX_MS,
);
