/**
 * Tests that the options of all requests share one hidden class. undici reads a dozen fields of them
 * for each request, most of which are absent; with a new class each time, that is its largest cost.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Agent } from "undici";
import { expect, it, vi } from "vitest";
import { countClasses } from "../collections/hidden-classes.testing.ts";
import { AMPLE, requestTo, testDeliverer } from "./deliverer.testing.ts";

const REQUESTS = 40;

it("the options of all requests share one hidden class", async () => {
  const server = createServer((_, response) => response.end()).listen(0, "127.0.0.1");
  await once(server, "listening");
  const deliverer = testDeliverer();
  const dispatch = vi.spyOn(Agent.prototype, "dispatch");
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    for (let n = 0; n < REQUESTS; n++) await deliverer.deliver(requestTo(url), AMPLE);
    const options = dispatch.mock.calls.map(([first]) => first);
    expect(options).toHaveLength(REQUESTS);
    expect(countClasses(options)).toBe(1);
  } finally {
    dispatch.mockRestore();
    await deliverer.close();
    server.close();
  }
});
