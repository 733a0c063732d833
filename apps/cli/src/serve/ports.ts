/**
 * Ports: which of them are free. A service must know its own port before it opens, so that no task
 * may call it; asking the system for "any" comes too late for that.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export const MAX_PORT = 65_535;

/** The port itself if it can be opened (0: any that can), undefined if it is taken. */
export async function probePort(host: string, port: number): Promise<number | undefined> {
  if (port > MAX_PORT) return undefined;
  const server = createServer();
  try {
    await once(server.listen(port, host), "listening");
  } catch (error) {
    if (isPortTaken(error)) return undefined;
    throw error;
  }
  const found = (server.address() as AddressInfo).port;
  await once(server.close(), "close");
  return found;
}

/** How many ports are tried before the system is asked for any. */
const MAX_PORTS_TRIED = 50;

/** The first free port from this one on; any free one if there is none near. */
export async function nextFreePort(host: string, from: number): Promise<number> {
  for (let port = from; port < from + MAX_PORTS_TRIED; port++) {
    const found = await probePort(host, port);
    if (found !== undefined) return found;
  }
  const found = await probePort(host, 0);
  if (found === undefined) throw new Error("no port is free");
  return found;
}

/** Somebody else listens there. */
export function isPortTaken(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "EADDRINUSE";
}
