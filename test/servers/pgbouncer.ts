/**
 * PgBouncer: starts the system's pgbouncer in transaction mode in front of a PostgreSQL server. Each
 * transaction may use another connection of few, so nothing may depend on the state of a session.
 */
import { chownSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { programFor } from "../../tools/needs.mjs";
import { onFreePort } from "./free-port.ts";
import { guardedFolder, startGuarded } from "./guarded.ts";
import type { PostgresServer } from "./postgres.ts";
import { postgresUser } from "./postgres-binaries.ts";

/** Starts a pooler in front of the server at `url`. */
export async function startPgBouncer(url: string): Promise<PostgresServer> {
  const program = programFor("pgbouncer");
  const user = postgresUser();
  const { port: serverPort } = new URL(url);
  return await onFreePort(async (port) => {
    const folder = guardedFolder("pgbouncer", user);
    const config = join(folder, "pgbouncer.ini");
    writeFileSync(config, configOf(serverPort, port));
    if (user !== undefined) chownSync(config, user.uid, user.gid);
    const server = startGuarded({ folder, program, args: [config], ...user });
    await server.waitFor(/process up/u);
    return { url: `postgres://postgres@127.0.0.1:${port}/postgres`, stop: server.stop };
  });
}

function configOf(serverPort: string, port: number): string {
  return `[databases]
postgres = host=127.0.0.1 port=${serverPort} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 100
`;
}
