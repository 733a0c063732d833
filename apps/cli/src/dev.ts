/**
 * Dev: `redrive dev`, the product on this machine with nothing to set up. Binds loopback only, and
 * moves on to the next port when its own is taken, so that two clones run side by side.
 */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { answer } from "./answer.ts";

const HOST = "127.0.0.1";

/** How many ports are tried before the system is asked for any. */
const PORTS_TRIED = 50;

/** Runs until told to stop by a signal; a second signal changes nothing. */
export async function runDev(options: { port: number }): Promise<void> {
  const server = await startDev(options);
  const { port } = server.address() as AddressInfo;
  const stop = () => stopDev(server);
  process.on("SIGINT", stop).on("SIGTERM", stop).on("SIGHUP", stop);
  process.stdout.write(`Redrive is ready at http://${HOST}:${port}/\n`);
}

/** Resolves once the port is open. */
export async function startDev(options: { port: number }): Promise<Server> {
  for (let tried = 0; tried < PORTS_TRIED; tried++) {
    const server = await listen(options.port + tried);
    if (server !== undefined) return server;
  }
  const server = await listen(0);
  if (server === undefined) throw new Error("no port is free");
  return server;
}

function stopDev(server: Server): void {
  server.close();
  server.closeAllConnections();
}

/** Undefined if the port is taken or beyond the last. */
async function listen(port: number): Promise<Server | undefined> {
  if (port > 65_535) return undefined;
  const server = createServer((request, response) => {
    const { status, headers, body } = answer(request);
    response.writeHead(status, headers).end(request.method === "HEAD" ? undefined : body);
  });
  try {
    await once(server.listen(port, HOST), "listening");
    return server;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return undefined;
    throw error;
  }
}
