/** Two of `redrive dev` run side by side. */
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { startDev } from "./dev.ts";

async function start(port: number): Promise<number> {
  const server = await startDev({ port });
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

test("a taken port is no obstacle: the next free one is used, on loopback", async () => {
  const first = await start(0);
  const second = await start(first);
  expect(second).toBeGreaterThan(first);
  const response = await fetch(`http://127.0.0.1:${second}/healthz`);
  expect(await response.json()).toEqual({ status: "ok" });
});

test("beyond the last port any free one will do", async () => {
  expect(await start(65_536)).toBeLessThan(65_536);
});
