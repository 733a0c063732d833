/**
 * Body files: the large bodies of exported tasks, one file per body in a folder. They may be longer than
 * memory, so each one is a stream. The name of a file is the `bodyRef` of its tasks.
 */
import { createReadStream, createWriteStream, mkdirSync, statSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream as NodeStream } from "node:stream/web";
import { causedError, formatCount, quote } from "@redrive/core";
import type { Client } from "@redrive/service/client";

/** A ref has no character that is special in a path. */
const REF = /^[\da-f-]{36}\.\d+\.[\da-f]{64}$/u;

/** Saves the bodies of exported tasks, and counts those that are missing from the export. */
export class BodyDownloads {
  readonly #client: Client;
  readonly #folder: string | undefined;

  // Mutable state: tasks whose body was not saved.
  #left = 0;
  readonly #unreadable: string[] = [];

  /** Without a folder, it only counts. */
  constructor(client: Client, folder: string | undefined) {
    this.#client = client;
    this.#folder = folder;
  }

  /** Throws `INVALID_ARGUMENT` if the folder cannot be written. */
  async save(taskId: string, bodyRef: string | null): Promise<void> {
    if (bodyRef === null) return;
    if (this.#folder === undefined) this.#left++;
    else if (!hasBody(this.#folder, bodyRef)) await this.#download(this.#folder, taskId, bodyRef);
  }

  async #download(folder: string, taskId: string, bodyRef: string): Promise<void> {
    const part = join(folder, `${bodyRef}.part`);
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const stream = Readable.fromWeb(
        (await this.#client.downloadBody(taskId)) as NodeStream<Uint8Array>,
      );
      await pipeline(stream, createWriteStream(part, { mode: 0o600, flush: true }));
      await rename(part, join(folder, bodyRef));
    } catch (error) {
      await rm(part, { force: true });
      // A failed system call is a problem of the folder. Other errors are problems of one body.
      if ((error as NodeJS.ErrnoException).syscall !== undefined) throw unwritable(folder, error);
      this.#unreadable.push(`the body of ${taskId} could not be read: ${(error as Error).message}`);
    }
  }

  /** Why the export is not complete. */
  get problems(): readonly string[] {
    return this.#unreadable;
  }

  get notes(): readonly string[] {
    if (this.#left === 0) return [];
    const tasks = formatCount(this.#left, "task");
    return [`${tasks} with a large body, which is not in the export: add --bodies <folder>`];
  }
}

function unwritable(folder: string, cause: unknown): Error {
  const text = `${quote(folder)} cannot be written: ${(cause as Error).message}`;
  return causedError("INVALID_ARGUMENT", text, cause);
}

/** Whether the folder has this body, in full. */
export function hasBody(folder: string, bodyRef: string): boolean {
  if (!REF.test(bodyRef)) return false;
  const size = statSync(join(folder, bodyRef), { throwIfNoEntry: false })?.size;
  return size === Number(bodyRef.split(".")[1]);
}

/** Uploads each body once, and returns its new `bodyRef`. */
export class BodyUploads {
  readonly #client: Client;
  readonly #folder: string;
  readonly #refs = new Map<string, string>();

  constructor(client: Client, folder: string) {
    this.#client = client;
    this.#folder = folder;
  }

  async refOf(exportedRef: string): Promise<string> {
    const known = this.#refs.get(exportedRef);
    if (known !== undefined) return known;
    const file = createReadStream(join(this.#folder, exportedRef));
    const stream = Readable.toWeb(file) as ReadableStream<Uint8Array>;
    const { bodyRef } = await this.#client.uploadBody(stream);
    this.#refs.set(exportedRef, bodyRef);
    return bodyRef;
  }
}
