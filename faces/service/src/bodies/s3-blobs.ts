/**
 * S3 blobs: blobs in a bucket of S3 or of a server with its API. The AWS SDK is loaded only here, when
 * a bucket is used. A blob is one object, sent with its length: until the whole object has arrived, it
 * does not exist.
 */

import { createReadStream } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import type { Readable } from "node:stream";
import type { S3Client, S3ClientConfig } from "@aws-sdk/client-s3";
import { type Clock, quote } from "@redrive/core";
import { serviceError } from "../model/errors.ts";
import {
  BlobError,
  type BlobStore,
  type BlobUpload,
  type BodyRef,
  blobErrorOf,
  bodyRefText,
  parseBodyRef,
  type StoredBlob,
  tenantName,
  tenantOfName,
} from "./blob-store.ts";
import { type Digested, uploadError, writeDigested } from "./file-blobs.ts";

type Sdk = typeof import("@aws-sdk/client-s3");

const OWNER_KEY = "owner";

/** A server that does not respond within this time is not available. */
const CALL_MS = 5000;
/** A transfer that stands still for this long is broken. */
const IDLE_MS = 30_000;
const CONNECT_MS = 3000;
/** The first call and its repetitions. */
const MAX_TRIES = 3;

const PAGE_KEYS = 1000;

/** Throws `INVALID_ARGUMENT` for a bad address, or if the SDK is not installed. */
export async function s3Blobs(text: string, clock: Clock): Promise<BlobStore> {
  const address = parseS3Address(text);
  const sdk = await loadSdk();
  const spool = await openSpool(address.spool).catch((error: unknown) => {
    throw blobErrorOf(error, `the directory ${address.spool ?? ""} cannot be used for uploads`);
  });
  return new S3Blobs(clock, sdk, address, spool);
}

async function loadSdk(): Promise<Sdk> {
  try {
    return await import("@aws-sdk/client-s3");
  } catch (error) {
    const text = "blobs in S3 need the AWS SDK: run `npm install @aws-sdk/client-s3`";
    throw serviceError("INVALID_ARGUMENT", text, error);
  }
}

function clientOptions({ region, endpoint }: S3Address): S3ClientConfig {
  return {
    maxAttempts: MAX_TRIES,
    // Servers other than AWS do not know the SDK's trailing checksums. Our own hash covers every byte.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    // The SDK would write to the console. Every failure is reported as an error.
    logger: SILENT,
    requestHandler: { connectionTimeout: CONNECT_MS, socketTimeout: IDLE_MS },
    ...(region !== undefined && { region }),
    ...(endpoint !== undefined && { endpoint, forcePathStyle: true }),
  };
}

const ignore = () => {};
const SILENT = { trace: ignore, debug: ignore, info: ignore, warn: ignore, error: ignore };

class S3Blobs implements BlobStore {
  readonly name: string;
  readonly #clock: Clock;
  readonly #sdk: Sdk;
  readonly #client: S3Client;
  readonly #address: S3Address;
  readonly #spool: Spool;

  constructor(clock: Clock, sdk: Sdk, address: S3Address, spool: Spool) {
    this.name = `s3://${address.bucket}/${address.prefix}`;
    this.#clock = clock;
    this.#sdk = sdk;
    this.#client = new sdk.S3Client(clientOptions(address));
    this.#address = address;
    this.#spool = spool;
  }

  async write(upload: BlobUpload): Promise<BodyRef> {
    const { tenantId, blobId, signal } = upload;
    const name = tenantName(tenantId);
    try {
      return await this.#spool.hold(upload, async ({ read, ...digested }) => {
        const ref = { blobId, ...digested };
        await this.#put(this.#key(name, ref), read, ref.length, signal);
        return ref;
      });
    } catch (error) {
      throw uploadError(error, upload, faultOf);
    }
  }

  /** The SDK cannot repeat a stream, so the repetitions are made here. */
  async #put(
    Key: string,
    read: () => Readable,
    ContentLength: number,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { PutObjectCommand } = this.#sdk;
    const options = signal === undefined ? {} : { abortSignal: signal };
    for (let tries = 1; ; tries++) {
      const Body = read();
      try {
        const input = { Bucket: this.#address.bucket, Key, Body, ContentLength };
        await this.#client.send(new PutObjectCommand(input), options);
        return;
      } catch (error) {
        if (tries === MAX_TRIES || signal?.aborted || !isTransient(error)) throw error;
      } finally {
        Body.destroy();
      }
    }
  }

  async check(tenantId: string, ref: BodyRef): Promise<void> {
    const { HeadObjectCommand } = this.#sdk;
    const found = await this.#call((options) =>
      this.#client.send(new HeadObjectCommand(this.#object(tenantId, ref)), options),
    );
    assertLength(ref, found.ContentLength);
  }

  async open(tenantId: string, ref: BodyRef, signal?: AbortSignal): Promise<Readable> {
    const { GetObjectCommand } = this.#sdk;
    const found = await this.#call(
      (options) => this.#client.send(new GetObjectCommand(this.#object(tenantId, ref)), options),
      signal,
    );
    const body = found.Body as Readable;
    try {
      assertLength(ref, found.ContentLength);
    } catch (error) {
      body.destroy();
      throw error;
    }
    return body;
  }

  async remove(tenantId: string, ref: BodyRef): Promise<void> {
    const { DeleteObjectCommand } = this.#sdk;
    await this.#call((options) =>
      this.#client.send(new DeleteObjectCommand(this.#object(tenantId, ref)), options),
    );
  }

  async *list(): AsyncGenerator<StoredBlob> {
    const { ListObjectsV2Command } = this.#sdk;
    const { bucket, prefix } = this.#address;
    let token: string | undefined;
    do {
      const page = await this.#call((options) =>
        this.#client.send(
          new ListObjectsV2Command({
            Bucket: bucket,
            Prefix: prefix,
            MaxKeys: PAGE_KEYS,
            ContinuationToken: token,
          }),
          options,
        ),
      );
      for (const { Key = "", LastModified } of page.Contents ?? []) {
        const blob = blobOf(Key.slice(prefix.length), LastModified?.getTime());
        if (blob !== undefined) yield blob;
      }
      token = page.NextContinuationToken;
    } while (token !== undefined);
  }

  async owner(storeId: string): Promise<string> {
    const { GetObjectCommand, PutObjectCommand } = this.#sdk;
    const object = { Bucket: this.#address.bucket, Key: `${this.#address.prefix}${OWNER_KEY}` };
    try {
      const found = await this.#call((options) =>
        this.#client.send(new GetObjectCommand(object), options),
      );
      return ((await found.Body?.transformToString()) ?? "").trim();
    } catch (error) {
      if (!(error instanceof BlobError) || error.fault !== "missing") throw error;
    }
    const put = new PutObjectCommand({ ...object, Body: `${storeId}\n` });
    await this.#call((options) => this.#client.send(put, options));
    return storeId;
  }

  async close(): Promise<void> {
    this.#client.destroy();
    await this.#spool.close();
  }

  /** Ends within `CALL_MS`, or when the signal is aborted. */
  async #call<T>(
    send: (options: { abortSignal: AbortSignal }) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const abort = new AbortController();
    const stop = () => abort.abort();
    const cancel = this.#clock.alarm(CALL_MS, stop, true);
    signal?.addEventListener("abort", stop, { once: true });
    try {
      signal?.throwIfAborted();
      return await send({ abortSignal: abort.signal });
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw faultOf(error, "the blob store failed");
    } finally {
      cancel();
      signal?.removeEventListener("abort", stop);
    }
  }

  #object(tenantId: string, ref: BodyRef) {
    return { Bucket: this.#address.bucket, Key: this.#key(tenantName(tenantId), ref) };
  }

  #key(tenant: string, ref: BodyRef): string {
    return `${this.#address.prefix}${tenant}/${bodyRefText(ref)}`;
  }
}

/** Undefined for an object that is no blob. */
function blobOf(key: string, storedAt: number | undefined): StoredBlob | undefined {
  const [tenant = "", name = ""] = key.split("/", 2);
  const tenantId = tenantOfName(tenant);
  const ref = parseBodyRef(name);
  if (tenantId === undefined || ref === undefined || storedAt === undefined) return undefined;
  return { tenantId, ref, storedAt };
}

function assertLength({ length }: BodyRef, found: number | undefined): void {
  if (found === length) return;
  throw new BlobError("corrupt", `the stored body has ${found} bytes instead of ${length}`);
}

// S3 address: reads `s3://BUCKET/PREFIX`, with the parameters `region`, `endpoint` (a server other
// than AWS) and `spool` (a directory for uploads). Credentials come from the environment, as for
// every program that uses the AWS SDK, and never from this text.

interface S3Address {
  readonly bucket: string;
  /** Empty, or ends with a slash. */
  readonly prefix: string;
  readonly region?: string;
  readonly endpoint?: string;
  readonly spool?: string;
}

const PARAMETERS = ["region", "endpoint", "spool"] as const;

/** Throws `INVALID_ARGUMENT`. */
export function parseS3Address(text: string): S3Address {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const bucket = url?.hostname ?? "";
  if (url?.protocol !== "s3:" || !/^[a-z\d][a-z\d.-]{1,61}[a-z\d]$/.test(bucket)) {
    throw invalid(text, "must be s3://BUCKET or s3://BUCKET/PREFIX");
  }
  if (url.username !== "" || url.password !== "") {
    throw serviceError("INVALID_ARGUMENT", "the credentials of S3 come from the environment");
  }
  const unknown = [...url.searchParams.keys()].find((name) => !isParameter(name));
  if (unknown !== undefined) {
    throw invalid(text, `has the unknown parameter ${quote(unknown)}`);
  }
  const endpoint = url.searchParams.get("endpoint");
  if (endpoint !== null && !/^https?:\/\//.test(endpoint)) {
    throw invalid(text, "must have an endpoint that begins with http:// or https://");
  }
  const path = decodeURIComponent(url.pathname).replace(/^\/+|\/+$/g, "");
  const given = PARAMETERS.flatMap((name) => {
    const value = url.searchParams.get(name);
    return value === null || value === "" ? [] : [[name, value] as const];
  });
  return { bucket, prefix: path === "" ? "" : `${path}/`, ...Object.fromEntries(given) };
}

function isParameter(name: string): boolean {
  return (PARAMETERS as readonly string[]).includes(name);
}

function invalid(text: string, problem: string): Error {
  return serviceError("INVALID_ARGUMENT", `blobs ${problem}, got ${quote(text)}`);
}

// S3 errors: what an error of the AWS SDK means for a blob.

interface S3Error {
  readonly name?: string;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

/** `NotFound` is the answer to HEAD. A missing bucket is an error of the operator, not of the blob. */
function faultOf(error: unknown, what: string): BlobError {
  if (error instanceof BlobError) return error;
  const { name = "", $metadata } = error as S3Error;
  if (name === "NoSuchKey" || name === "NotFound") {
    return new BlobError("missing", "there is no such body", error);
  }
  const known = blobErrorOf(error, what);
  if (known.fault === "full") return known;
  const status = $metadata?.httpStatusCode;
  const text = status === undefined ? name : `${name} (status ${status})`;
  return new BlobError("unavailable", `${what}: ${text}`, error);
}

/** A 4xx says that the same call fails again. */
function isTransient(error: unknown): boolean {
  const { httpStatusCode = 500 } = (error as S3Error).$metadata ?? {};
  return httpStatusCode >= 500 || httpStatusCode === 429;
}

// Spool: a private local directory for uploads on their way to a bucket. The name of an object
// contains the hash of its bytes, which is known only at the end of an upload; and a whole file can
// be sent with its length, and sent again if that fails. The directories of processes that crashed
// are removed.

interface Spool {
  /** Calls `use` with the complete bytes, and removes them when it is done. */
  hold<T>(upload: BlobUpload, use: (spooled: Spooled) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

interface Spooled extends Digested {
  /** The bytes from their beginning, each time it is called. */
  read(): Readable;
}

const PREFIX = "redrive-spool-";

/** The directories of this process, which may run several services. */
const own = new Set<string>();

/** `parent`: where the directory is created. Default: the system's directory of temporary files. */
async function openSpool(parent: string = tmpdir()): Promise<Spool> {
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
