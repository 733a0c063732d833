/** The simulator in a real browser's worker: the same seed gives the same trace as here, bit for bit. */
// needs: chromium
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { launchChromium } from "../servers/chromium.ts";
import { bundle } from "../size/bundle.ts";
import { answers, hashes } from "./simulator-answers.ts";

const WORKER = `import { answers, hashes } from "./test/browser/simulator-answers.ts";
postMessage({ hashes: hashes(), answers: answers() });`;

interface Posted {
  readonly hashes: Record<string, string>;
  readonly answers: Record<string, string>;
}

/** A page, and the worker it starts. */
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

/** All of it twice, on machines that may have other work: a limit for what hangs. */
const MAX_MS = 300_000;

test(
  "every shipped scenario, lab and answer is the same in Chromium as in Node",
  async () => {
    const { server, url } = await serve((await bundle(WORKER)).code);
    const browser = await launchChromium();
    try {
      const page = await browser.newPage();
      await page.goto(url);
      const posted = await page.evaluate(runWorker);
      expect(posted.hashes).toEqual(hashes());
      expect(Object.keys(posted.hashes).length).toBeGreaterThan(10);
      expect(posted.answers).toEqual(answers());
    } finally {
      await browser.close();
      server.closeAllConnections();
      server.close();
    }
  },
  MAX_MS,
);
