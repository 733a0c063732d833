/**
 * Free port: a loopback port that nobody has, for servers that cannot pick one themselves. Another
 * process may take it in the instant between, so starts on it are tried again.
 */
import { once } from "node:events";
import { createServer } from "node:net";

const TRIES = 5;

/** What servers print when their port is taken after all. */
const TAKEN = /address already in use|could not bind/iu;

/** Calls `start` with a free port, again with another when that one was taken meanwhile. */
export async function onFreePort<T>(start: (port: number) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start(await freePort());
    } catch (error) {
      if (attempt === TRIES || !TAKEN.test(String(error))) throw error;
    }
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port was given");
  return address.port;
}
