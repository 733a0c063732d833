/**
 * RabbitMQ: starts the system's rabbitmq-server on a free port, with its own files and its own name
 * server (epmd). A test crashes and restarts it; a guard ends it, however the test ends.
 */
import { execFile } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { connect } from "amqplib";
import { programFor } from "../../tools/needs.mjs";
import { freePort } from "./free-port.ts";
import { guardedFolder, startGuarded } from "./guarded.ts";
import { type Program, type RestartableServer, startProgram } from "./restartable.ts";

/** The server itself. On Debian, the program in the path changes to another user first. */
const SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/** Sends commands to a running server. */
const CONTROL = "/usr/lib/rabbitmq/bin/rabbitmqctl";

export interface RabbitmqServer
  extends Pick<RestartableServer, "crash" | "start" | "hang" | "resume" | "stop"> {
  readonly url: string;
  /** Runs a command of `rabbitmqctl`. */
  control(...args: readonly string[]): Promise<void>;
}

export async function startRabbitmq(): Promise<RabbitmqServer> {
  const program = programFor("rabbitmq");
  const folder = guardedFolder("rabbitmq");
  const guard = startGuarded({ folder, stopSignal: "SIGKILL" });
  const [port, distPort, epmdPort] = [await freePort(), await freePort(), await freePort()];
  const epmd = startGuarded({
    folder: guardedFolder("epmd"),
    program: "epmd",
    args: ["-port", String(epmdPort), "-address", "127.0.0.1"],
  });
  const url = `amqp://127.0.0.1:${port}`;
  const ping = async () => {
    const connection = await connect(url);
    await connection.close();
  };
  const env = { ...process.env, ...settings(folder, { port, distPort, epmdPort }) };
  const server = await startProgram(
    {
      kind: "rabbitmq",
      command: existsSync(SERVER) ? SERVER : program,
      args: [],
      env,
      crashSignal: "SIGKILL",
      ping,
      urlOf: () => url,
    } satisfies Program,
    guard,
  );
  return {
    url,
    crash: () => server.crash(),
    start: () => server.start(),
    hang: () => server.hang(),
    resume: () => server.resume(),
    async control(...args) {
      const program = existsSync(CONTROL) ? CONTROL : "rabbitmqctl";
      await promisify(execFile)(program, [...args], { env });
    },
    async stop() {
      await server.stop();
      await epmd.stop();
    },
  };
}

interface Ports {
  readonly port: number;
  readonly distPort: number;
  readonly epmdPort: number;
}

function settings(folder: string, { port, distPort, epmdPort }: Ports): NodeJS.ProcessEnv {
  const plugins = join(folder, "plugins");
  writeFileSync(plugins, "[].");
  return {
    HOME: folder,
    ERL_EPMD_PORT: String(epmdPort),
    ERL_EPMD_ADDRESS: "127.0.0.1",
    RABBITMQ_NODENAME: `redrive-${port}@localhost`,
    RABBITMQ_NODE_IP_ADDRESS: "127.0.0.1",
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_DIST_PORT: String(distPort),
    RABBITMQ_MNESIA_BASE: join(folder, "data"),
    RABBITMQ_LOG_BASE: join(folder, "log"),
    RABBITMQ_CONFIG_FILE: join(folder, "none"),
    RABBITMQ_ENABLED_PLUGINS_FILE: plugins,
    // The process is the server itself, so that a signal reaches it.
    RUNNING_UNDER_SYSTEMD: "true",
  };
}
