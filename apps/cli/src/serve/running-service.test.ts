/** Serving opens where it was told to, and somewhere else only where any port will do. */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { systemClock, systemRandom } from "@redrive/core";
import { expect, onTestFinished, test } from "vitest";
import { startFlakyDestination } from "./flaky-destination.ts";
import { probePort } from "./ports.ts";
import { type App, startService } from "./running-service.ts";

const HOST = "127.0.0.1";

interface Place {
  readonly port: number;
  readonly host: string;
}

async function occupy(port: number): Promise<number> {
  const server = createServer().listen(port, HOST);
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

/** Somebody else takes the port of the first service that is about to open it. */
function takenOnce() {
  const taken: number[] = [];
  const prepare = (app: App) => {
    const open: (options: Place) => Promise<string> = app.listen.bind(app);
    app.listen = (async (place: Place) => {
      if (taken.length === 0) taken.push(await occupy(place.port));
      return open(place);
    }) as App["listen"];
  };
  return { taken, prepare };
}

test("a port that was lost between looking and opening is no obstacle where any will do", async () => {
  const { taken, prepare } = takenOnce();
  const serving = await startService({ host: HOST, port: 0, store: "memory:" }, { prepare });
  onTestFinished(() => serving.stop());
  expect(taken).toHaveLength(1);
  expect(new URL(serving.url).port).not.toBe(String(taken[0]));
  expect((await fetch(`${serving.url}/readyz`)).status).toBe(200);
});

test("a port that was asked for and lost is told as taken", async () => {
  const { prepare } = takenOnce();
  const port = (await probePort(HOST, 0)) ?? 0;
  const opening = startService({ host: HOST, port, store: "memory:" }, { prepare });
  await expect(opening).rejects.toMatchObject({ code: "EADDRINUSE" });
});

test("the flaky destination goes elsewhere when its port is taken", async () => {
  const port = await occupy(0);
  const flaky = await startFlakyDestination(systemClock, systemRandom, { host: HOST, port });
  onTestFinished(() => flaky.stop());
  expect(new URL(flaky.url).port).not.toBe(String(port));
  expect((await fetch(flaky.url)).status).toBe(200);
});
