/** A service listens on the port it is given, and chooses a port only for port 0. */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { resolveDestination, systemClock, systemRandom } from "@redrive/core";
import { STOP_GRACE_MS } from "@redrive/service";
import { expect, onTestFinished, test, vi } from "vitest";
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

test("a stop gives running attempts one grace period, which the pages and the unit file allow", async () => {
  const service = await startService({ host: HOST, port: 0, store: "memory:" });
  const stop = vi.spyOn(service.redrive, "stop");
  await service.stop();
  // The default of the engine.
  expect(stop.mock.calls).toEqual([[]]);
  expect(STOP_GRACE_MS).toBeGreaterThan(resolveDestination({}, "service").policy.attemptTimeoutMs);
  const read = (name: string) =>
    readFileSync(new URL(`../../../../docs/${name}`, import.meta.url), "utf8");
  const seconds = (text: string, pattern: RegExp) => Number(pattern.exec(text)?.[1]);
  const graceSeconds = STOP_GRACE_MS / 1000;
  expect(seconds(read("cli.md"), /waits up to (\d+) s for running/u)).toBe(graceSeconds);
  expect(seconds(read("operations.md"), /running attempts for up to (\d+) s/u)).toBe(graceSeconds);
  expect(seconds(read("embedded.md"), /running attempts \((\d+) s by/u)).toBe(graceSeconds);
  const unit = seconds(read("deploy/redrive.service"), /^TimeoutStopSec=(\d+)$/mu);
  expect(unit).toBeGreaterThan(graceSeconds + 12);
});
