/** A service listens on the port it is given, and chooses a port only for port 0. */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { systemClock, systemRandom } from "@redrive/core";
import { expect, onTestFinished, test } from "vitest";
import { startFlakyDestination } from "./flaky-destination.ts";
import { probePort } from "./ports.ts";
import { type App, startService } from "./running-service.ts";

const HOST = "127.0.0.1";

interface ListenAddress {
  readonly port: number;
  readonly host: string;
}

async function occupy(port: number): Promise<number> {
  const server = createServer().listen(port, HOST);
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

/** Another process takes the port just before the first service listens on it. */
function portTakenOnce() {
  const taken: number[] = [];
  const prepare = (app: App) => {
    const listen: (options: ListenAddress) => Promise<string> = app.listen.bind(app);
    app.listen = (async (address: ListenAddress) => {
      if (taken.length === 0) taken.push(await occupy(address.port));
      return listen(address);
    }) as App["listen"];
  };
  return { taken, prepare };
}

test("with port 0, a port that is taken after the probe is replaced by another", async () => {
  const { taken, prepare } = portTakenOnce();
  const service = await startService({ host: HOST, port: 0, store: "memory:" }, { prepare });
  onTestFinished(() => service.stop());
  expect(taken).toHaveLength(1);
  expect(new URL(service.url).port).not.toBe(String(taken[0]));
  expect((await fetch(`${service.url}/readyz`)).status).toBe(200);
});

test("a requested port that is taken after the probe is reported as taken", async () => {
  const { prepare } = portTakenOnce();
  const port = (await probePort(HOST, 0)) ?? 0;
  const starting = startService({ host: HOST, port, store: "memory:" }, { prepare });
  await expect(starting).rejects.toMatchObject({ code: "EADDRINUSE" });
});

test("the flaky destination uses another port if its own is taken", async () => {
  const port = await occupy(0);
  const flaky = await startFlakyDestination(systemClock, systemRandom, { host: HOST, port });
  onTestFinished(() => flaky.stop());
  expect(new URL(flaky.url).port).not.toBe(String(port));
  expect((await fetch(flaky.url)).status).toBe(200);
});
