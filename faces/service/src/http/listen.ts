/** Listen: opens the port, and refuses an address that would expose the service without a key. */
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { quote, RedriveError } from "@redrive/core";
import type { FastifyInstance } from "fastify";

export interface ListenOptions {
  /** Default: 127.0.0.1. */
  readonly host?: string;
  /** 0: any free port. Default: 7337. */
  readonly port?: number;
}

export const DEFAULT_HOST = "127.0.0.1";
export const DEFAULT_PORT = 7337;

/** Throws `INVALID_ARGUMENT` for an address beyond loopback while no key is required. */
export function assertMayListen(host: string, requiresKey: boolean): void {
  if (requiresKey || isLoopback(host)) return;
  const message = `host must be 127.0.0.1 while there is no API key, got ${quote(host)}: create one with \`redrive keys add\`, or set REDRIVE_API_KEY`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

/** Resolves with the URL once the port is open. */
export async function listenApp(
  app: FastifyInstance,
  { host = DEFAULT_HOST, port = DEFAULT_PORT }: ListenOptions = {},
): Promise<string> {
  assertMayListen(host, app.requiresKey || app.isOpenToAll);
  await app.listen({ host: host === "localhost" ? DEFAULT_HOST : host, port });
  const address = app.server.address() as AddressInfo;
  if (host === "localhost") await listenOnIpv6(app.server, address.port);
  return `http://${host.includes(":") ? `[${host}]` : host}:${address.port}`;
}

/** `localhost` has two addresses. The second listener passes its connections to the server. */
async function listenOnIpv6(server: Server, port: number): Promise<void> {
  const options = { allowHalfOpen: true, noDelay: true };
  const second = createServer(options, (socket) => server.emit("connection", socket));
  server.once("close", () => second.close());
  second.listen(port, "::1");
  try {
    await once(second, "listening");
  } catch {
    // The machine has no IPv6, or another program has this port: 127.0.0.1 is enough.
  }
}

function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/.test(host);
}
