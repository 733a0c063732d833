/**
 * Doctor checks: checks whether a service can run on this machine, each with a fix. The checks
 * create no store, key or port.
 */
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import process from "node:process";
import { systemClock } from "@redrive/core";
import { assertEncryptionKey, type ClockStatus, checkSqliteFile } from "@redrive/service";
import { acceptedKeys } from "../serve/api-keys.ts";
import { probePort } from "../serve/ports.ts";
import { isLoopback } from "../serve/running-service.ts";
import { isServerStore, type ServiceConfig, storePath } from "../serve/service-config.ts";
import { checkBlobs } from "./doctor-blobs.ts";
import type { Check } from "./doctor-check.ts";
import { checkClock } from "./doctor-clock.ts";
import { checkDocuments } from "./doctor-documents.ts";
import { checkPostgres } from "./doctor-postgres.ts";
import { checkRedis } from "./doctor-redis.ts";

/** The environment variables that a service reads. */
export interface ServiceSecrets {
  readonly apiKey: string | undefined;
  readonly encryptionKey: string | undefined;
}

export async function runChecks(
  config: ServiceConfig,
  { apiKey, encryptionKey }: ServiceSecrets,
): Promise<readonly Check[]> {
  const isRunning = await isServiceRunning(config);
  const readiness = isRunning ? await readService<Readiness>(config, "/readyz") : undefined;
  return [
    checkNode(process.versions.node),
    ...(await checkStores(config.store, isRunning)),
    await checkBlobs(config),
    await checkPort(config, isRunning),
    checkKey(config, apiKey),
    checkEncryption(encryptionKey),
    checkClock(systemClock, config, readiness?.clock),
    checkDocuments(config.store, readiness?.unreadableDocuments),
  ];
}

const ok = (name: string, found: string): Check => ({ name, state: "ok", found, fix: "" });

export function checkNode(version: string): Check {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const isGood = major > 20 || (major === 20 && minor >= 19);
  const name = "node";
  if (isGood) return ok(name, version);
  return { name, state: "fail", found: version, fix: "install Node.js 20.19 or later" };
}

async function checkStores(store: string, isRunning: boolean): Promise<readonly Check[]> {
  if (!isServerStore(store)) return [checkStore(store, isRunning)];
  return store.startsWith("redis") ? checkRedis(store) : checkPostgres(store);
}

/** Checks that the file is a Redrive store of a known version and is not damaged. */
function checkStore(store: string, isRunning: boolean): Check {
  const name = "store";
  const path = storePath(store);
  if (path === undefined) {
    const fix = "data is lost when the process ends: use --store sqlite:PATH";
    return { name, state: "warn", found: "in memory", fix };
  }
  const found = existsSync(path) ? statSync(path) : undefined;
  if (found === undefined) return checkFolder(path);
  try {
    const [damage] = checkSqliteFile(path);
    if (damage !== undefined) throw new Error(`${path} is damaged: ${damage}`);
    return ok(name, `${path} opens and is not damaged, ${Math.ceil(found.size / 1024)} KB`);
  } catch (error) {
    const message = (error as Error).message;
    if (isRunning && message.includes("is in use"))
      return ok(name, `${path}: in use by the running service`);
    return { name, state: "fail", found: message, fix: storeFix(message) };
  }
}

/** Checks that the first start can create the file: the nearest existing folder must be writable. */
function checkFolder(path: string): Check {
  const name = "store";
  let folder = dirname(resolve(path));
  while (!existsSync(folder)) folder = dirname(folder);
  try {
    accessSync(folder, constants.W_OK);
    if (!statSync(folder).isDirectory()) throw new Error(`${folder} is not a folder`);
    return ok(name, `${path} does not exist yet; the first start creates it`);
  } catch (error) {
    const fix = "choose a folder that Redrive may write to";
    return { name, state: "fail", found: (error as Error).message, fix };
  }
}

function storeFix(message: string): string {
  if (message.includes("is in use")) return "stop the other process, or choose another file";
  if (message.includes("damaged")) return "see what can be saved with `redrive doctor --repair`";
  return "choose a file that Redrive may read and write";
}

/** A service responds within this time. */
const PROBE_TIMEOUT_MS = 2000;

async function isServiceRunning(config: ServiceConfig): Promise<boolean> {
  const document = await readService<{ info?: { title?: string } }>(config, "/openapi.json");
  return document?.info?.title === "Redrive";
}

/** A document of the running service; undefined: it does not respond. */
async function readService<T>({ host, port }: ServiceConfig, path: string): Promise<T | undefined> {
  const late = new AbortController();
  const cancel = systemClock.alarm(PROBE_TIMEOUT_MS, () => late.abort());
  try {
    const name = /^(?:0\.0\.0\.0|::)$/u.test(host) ? "127.0.0.1" : host;
    const response = await fetch(`http://${name}:${port}${path}`, { signal: late.signal });
    return (await response.json()) as T;
  } catch {
    return undefined;
  } finally {
    cancel();
  }
}

/** The part of `/readyz` that is reported. */
interface Readiness {
  readonly clock?: ClockStatus;
  readonly unreadableDocuments?: number;
}

async function checkPort({ host, port }: ServiceConfig, isRunning: boolean): Promise<Check> {
  const name = "port";
  if (isRunning) return ok(name, `a Redrive service responds at ${host}:${port}`);
  try {
    if ((await probePort(host, port)) !== undefined) return ok(name, `${host}:${port} is free`);
    const fix = "stop the process that listens there, or choose another --port";
    return { name, state: "fail", found: `${host}:${port} is taken`, fix };
  } catch (error) {
    const fix = "choose an address of this machine with --host and a port above 1023";
    return { name, state: "fail", found: (error as Error).message, fix };
  }
}

/** Checks only the format. Whether it is the store's key is known only when the service opens the store. */
export function checkEncryption(key: string | undefined): Check {
  const name = "encryption";
  if (!key) return ok(name, "no key: the store contains the headers of tasks in plain text");
  try {
    return ok(name, `the store encrypts the headers of tasks with key ${assertEncryptionKey(key)}`);
  } catch (error) {
    const fix = "create one with `openssl rand -base64 32`";
    return { name, state: "fail", found: (error as Error).message, fix };
  }
}

function checkKey(
  { host, store, insecureNoAuth }: ServiceConfig,
  apiKey: string | undefined,
): Check {
  const name = "key";
  try {
    const keys = acceptedKeys(store, apiKey);
    if (keys !== undefined) return ok(name, `${keys.list().length} known: every call needs a key`);
    if (isLoopback(host)) return ok(name, "none: loopback needs no key");
    const fix = "create one with `redrive keys add`, or set REDRIVE_API_KEY";
    if (insecureNoAuth) return { name, state: "warn", found: `none: ANYONE may call ${host}`, fix };
    return { name, state: "fail", found: `none, but other machines can reach ${host}`, fix };
  } catch (error) {
    const fix = "create one with `redrive keys add`";
    return { name, state: "fail", found: (error as Error).message, fix };
  }
}
