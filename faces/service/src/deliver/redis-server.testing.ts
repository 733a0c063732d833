/** A server for tests that answers the commands of Redis with what a test gives it. */
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";

/** The reply to a command, as bytes; undefined: none. */
export type RedisConduct = (
  command: readonly string[],
  socket: Socket,
  /** The number of XADD commands so far. */
  adds: number,
) => string | undefined;

export interface RedisTestServer {
  readonly port: number;
  readonly sockets: readonly Socket[];
  readonly commands: readonly (readonly string[])[];
  url(stream?: string): string;
  close(): Promise<void>;
}

/** What an honest server replies. */
export function honestReply([name]: readonly string[]): string {
  if (name === "PING") return "+PONG\r\n";
  return name === "XADD" ? "$3\r\n1-1\r\n" : "+OK\r\n";
}

export async function redisTestServer(
  conduct: RedisConduct,
  tls?: TlsOptions,
): Promise<RedisTestServer> {
  const sockets: Socket[] = [];
  const commands: string[][] = [];
  const onSocket = (socket: Socket) => {
    sockets.push(socket);
    socket.setNoDelay(true).on("error", () => {});
    readCommands(socket, (command) => {
      commands.push(command);
      const adds = commands.filter(([name]) => name === "XADD").length;
      const reply = conduct(command, socket, adds);
      if (reply !== undefined && !socket.destroyed) socket.write(reply, "latin1");
    });
  };
  const server = tls ? createTlsServer(tls, onSocket) : createServer(onSocket);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  return {
    port,
    sockets,
    commands,
    url: (stream = "orders") => `redis-stream://127.0.0.1:${port}/0?stream=${stream}`,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

function readCommands(socket: Socket, onCommand: (command: string[]) => void): void {
  let pending = "";
  socket.on("data", (chunk: Buffer) => {
    pending += chunk.toString("latin1");
    for (let found = commandIn(pending); found !== undefined; found = commandIn(pending)) {
      pending = pending.slice(found.end);
      onCommand(found.args);
    }
  });
}

function commandIn(text: string): { readonly args: string[]; readonly end: number } | undefined {
  const count = /^\*(\d+)\r\n/.exec(text);
  if (count === null) return undefined;
  const args: string[] = [];
  let end = count[0].length;
  for (let n = Number(count[1]); n > 0; n--) {
    const head = /^\$(\d+)\r\n/.exec(text.slice(end, end + 20));
    if (head === null) return undefined;
    const start = end + head[0].length;
    end = start + Number(head[1]) + 2;
    if (text.length < end) return undefined;
    args.push(text.slice(start, end - 2));
  }
  return { args, end };
}
