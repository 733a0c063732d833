/**
 * Ports: finds free ports. A service must know its port before it listens, because tasks may not
 * call that port. Listening on port 0 would reveal the port too late.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export const MAX_PORT = 65_535;

/** Returns the port if it is free (for 0: any free port), or undefined if it is taken. */
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

/** How many ports are tried before falling back to any free port. */
const MAX_PORTS_TRIED = 50;

/** Returns the first free port from `from` on, or any free port if none of those is free. */
export async function nextFreePort(host: string, from: number): Promise<number> {
  for (let port = from; port < from + MAX_PORTS_TRIED; port++) {
    const found = await probePort(host, port);
    if (found !== undefined) return found;
  }
  const found = await probePort(host, 0);
  if (found === undefined) throw new Error("no port is free");
  return found;
}

/** True if another process listens on the port. */
export function isPortTaken(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "EADDRINUSE";
}
