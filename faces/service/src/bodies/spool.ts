/**
 * Spool: a private local directory for uploads on their way to a bucket. The name of an object contains
 * the hash of its bytes, which is known only at the end of an upload; and a whole file can be sent with
 * its length, and sent again if that fails. The directories of processes that crashed are removed.
 */
import { createReadStream } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import type { Readable } from "node:stream";
import type { BlobUpload } from "./blob-store.ts";
import { type Digested, writeDigested } from "./digested-file.ts";

export interface Spool {
  /** Calls `use` with the complete bytes, and removes them when it is done. */
  hold<T>(upload: BlobUpload, use: (spooled: Spooled) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export interface Spooled extends Digested {
  /** The bytes from their beginning, each time it is called. */
  read(): Readable;
}

const PREFIX = "redrive-spool-";

/** The directories of this process, which may run several services. */
const own = new Set<string>();

/** `parent`: where the directory is created. Default: the system's directory of temporary files. */
export async function openSpool(parent: string = tmpdir()): Promise<Spool> {
  await removeLeftovers(parent);
  // Created with mode 0700.
  const folder = await mkdtemp(join(parent, `${PREFIX}${process.pid}-`));
  own.add(folder);
  return {
    async hold(upload, use) {
      const path = join(folder, upload.blobId);
      const digested = await writeDigested({ ...upload, path, sync: false });
      try {
        return await use({ ...digested, read: () => createReadStream(path) });
      } finally {
        await rm(path, { force: true });
      }
    },
    async close() {
      await rm(folder, { recursive: true, force: true });
      own.delete(folder);
    },
  };
}

async function removeLeftovers(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    const [, pid] = /^redrive-spool-(\d+)-/.exec(name) ?? [];
    const folder = join(parent, name);
    if (pid === undefined || own.has(folder)) continue;
    // Another user's directory stays.
    if (!isOther(Number(pid))) await rm(folder, { recursive: true, force: true }).catch(() => {});
  }
}

/** Is it the id of another process that runs? */
function isOther(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
