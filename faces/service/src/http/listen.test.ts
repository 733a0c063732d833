/** Tests of listening: nobody exposes the service by accident. */
import { networkInterfaces } from "node:os";
import { virtualClock } from "@redrive/core";
import { expect, it } from "vitest";
import { createRedrive } from "../create-redrive.ts";
import { assertMayListen, listenApp } from "./listen.ts";
import { createApp } from "./server.ts";

it.each(["0.0.0.0", "::", "192.168.1.5", "example.com"])(
  "rejects %s without a key, and says what to do",
  (host) => {
    expect(() => assertMayListen(host, false)).toThrow(/redrive keys add/);
    expect(() => assertMayListen(host, true)).not.toThrow();
  },
);

it.each(["127.0.0.1", "localhost", "::1"])("listens on %s without one", (host) => {
  expect(() => assertMayListen(host, false)).not.toThrow();
});

it("listens on both addresses of localhost, and closes both", async () => {
  const redrive = await createRedrive({ store: "memory:", clock: virtualClock() });
  const app = createApp(redrive);
  const { port } = new URL(await listenApp(app, { host: "localhost", port: 0 }));
  const local = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  const hosts = ["127.0.0.1", ...(local.some(({ address }) => address === "::1") ? ["[::1]"] : [])];
  const urls = hosts.map((host) => `http://${host}:${port}/healthz`);
  for (const url of urls) {
    expect((await fetch(url, { headers: { connection: "close" } })).status).toBe(200);
  }
  await app.close();
  for (const url of urls) await expect(fetch(url)).rejects.toThrow("fetch failed");
  await redrive.stop(0);
});
