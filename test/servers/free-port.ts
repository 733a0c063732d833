/**
 * Free port: a free loopback port for servers that cannot pick one themselves. Another process may
 * take the port before the server starts, so the start is retried.
 */
import { once } from "node:events";
import { createServer } from "node:net";

const MAX_TRIES = 5;

/** What servers print if their port is taken. */
const TAKEN = /address already in use|could not bind/iu;

/** Calls `start` with a free port. If another process takes it first, tries another port. */
export async function onFreePort<T>(start: (port: number) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start(await freePort());
    } catch (error) {
      if (attempt === MAX_TRIES || !TAKEN.test(String(error))) throw error;
    }
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string")
    throw new Error("the system assigned no port");
  return address.port;
}
