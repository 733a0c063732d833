/**
 * S3 blobs: blobs in a bucket of S3 or of a server with its API. The AWS SDK is loaded only here, when
 * a bucket is used. A blob is one object, sent with its length: until the whole object has arrived, it
 * does not exist.
 */
import type { Readable } from "node:stream";
import type { S3Client, S3ClientConfig } from "@aws-sdk/client-s3";
import type { Clock } from "@redrive/core";
import { serviceError } from "../model/errors.ts";
import {
  BlobError,
  type BlobStore,
  type BlobUpload,
  blobErrorOf,
  type StoredBlob,
  tenantName,
  tenantOfName,
} from "./blob-store.ts";
import { type BodyRef, bodyRefText, parseBodyRef } from "./body-ref.ts";
import { uploadError } from "./digested-file.ts";
import { parseS3Address, type S3Address } from "./s3-address.ts";
import { faultOf, isTransient } from "./s3-errors.ts";
import { openSpool, type Spool } from "./spool.ts";

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
