/** The simulator in a real browser's worker: the same seed gives the same trace as here, bit for bit. */
// needs: chromium
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { scenarios, traceHash } from "@redrive/simulator";
import { expect, test } from "vitest";
import { launchChromium } from "../servers/chromium.ts";
import { bundle } from "../size/bundle.ts";

/** Posts the hash of every shipped scenario. */
const WORKER = `import { scenarios, traceHash } from "@redrive/simulator";
const hashes = Object.entries(scenarios).map(([name, scenario]) => [name, traceHash(scenario, 1)]);
postMessage(Object.fromEntries(hashes));`;

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

function runWorker(): Promise<Record<string, string>> {
  return new Promise((resolve, reject) => {
    const worker = new Worker("/worker.js", { type: "module" });
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(message));
  });
}

test("every shipped scenario leaves the same trace in Chromium as in Node", async () => {
  const { server, url } = await serve((await bundle(WORKER)).code);
  const browser = await launchChromium();
  try {
    const page = await browser.newPage();
    await page.goto(url);
    const hashes = await page.evaluate(runWorker);
    const here = Object.entries(scenarios).map(([name, scenario]) => [
      name,
      traceHash(scenario, 1),
    ]);
    expect(hashes).toEqual(Object.fromEntries(here));
    expect(here.length).toBeGreaterThan(10);
  } finally {
    await browser.close();
    server.closeAllConnections();
    server.close();
  }
});
