/**
 * Doctor checks: what a service needs of its machine, each looked at by itself, with what to do
 * about it. No store, key or port is made by looking.
 */
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import process from "node:process";
import { type Clock, systemClock } from "@redrive/core";
import { assertEncryptionKey, checkSqliteFile } from "@redrive/service";
import { formatDuration } from "@redrive/simulator/words";
import { acceptedKeys } from "./api-keys.ts";
import { probePort } from "./ports.ts";
import { isLoopback } from "./running-service.ts";
import { type ServiceConfig, storePath } from "./service-config.ts";

export interface Check {
  readonly name: string;
  readonly state: "ok" | "warn" | "fail";
  readonly found: string;
  /** What to do about it; empty if nothing is. */
  readonly fix: string;
}

/** What of the environment a service reads. */
export interface ServiceSecrets {
  readonly apiKey: string | undefined;
  readonly encryptionKey: string | undefined;
}

export async function runChecks(
  config: ServiceConfig,
  { apiKey, encryptionKey }: ServiceSecrets,
): Promise<readonly Check[]> {
  const serves = await isServiceRunning(config);
  return [
    checkNode(process.versions.node),
    checkStore(config.store, serves),
    await checkPort(config, serves),
    checkKey(config, apiKey),
    checkEncryption(encryptionKey),
    checkClock(systemClock, config.store),
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

/** Whether it is ours, of a version that we know, and whole. */
function checkStore(store: string, serves: boolean): Check {
  const name = "store";
  const path = storePath(store);
  if (path === undefined) {
    const fix = "what it holds ends with the process: use --store sqlite:PATH";
    return { name, state: "warn", found: "in memory", fix };
  }
  const found = existsSync(path) ? statSync(path) : undefined;
  if (found === undefined) return checkFolder(path);
  try {
    const [damage] = checkSqliteFile(path);
    if (damage !== undefined) throw new Error(`${path} is damaged: ${damage}`);
    return ok(name, `${path} opens and is whole, ${Math.ceil(found.size / 1024)} KB`);
  } catch (error) {
    const message = (error as Error).message;
    if (serves && message.includes("is in use")) return ok(name, `${path}: the service has it`);
    return { name, state: "fail", found: message, fix: storeFix(message) };
  }
}

/** Whether the first start can make the file: in the nearest folder that is there. */
function checkFolder(path: string): Check {
  const name = "store";
  let folder = dirname(resolve(path));
  while (!existsSync(folder)) folder = dirname(folder);
  try {
    accessSync(folder, constants.W_OK);
    if (!statSync(folder).isDirectory()) throw new Error(`${folder} is no folder`);
    return ok(name, `${path} is not there yet; the first start makes it`);
  } catch (error) {
    const fix = "give Redrive a folder that it may write";
    return { name, state: "fail", found: (error as Error).message, fix };
  }
}

function storeFix(message: string): string {
  if (message.includes("is in use")) return "stop the other process, or give this one another file";
  if (message.includes("damaged")) return "stop the service, and restore the file from a backup";
  return "give Redrive a file of its own that it may read and write";
}

/** Who does not answer within this is no service. */
const PROBE_TIMEOUT_MS = 2000;

async function isServiceRunning({ host, port }: ServiceConfig): Promise<boolean> {
  const late = new AbortController();
  const cancel = systemClock.alarm(PROBE_TIMEOUT_MS, () => late.abort());
  try {
    const name = /^(?:0\.0\.0\.0|::)$/u.test(host) ? "127.0.0.1" : host;
    const response = await fetch(`http://${name}:${port}/openapi.json`, {
      signal: late.signal,
    });
    const { info } = (await response.json()) as { info?: { title?: string } };
    return info?.title === "Redrive";
  } catch {
    return false;
  } finally {
    cancel();
  }
}

async function checkPort({ host, port }: ServiceConfig, serves: boolean): Promise<Check> {
  const name = "port";
  if (serves) return ok(name, `a Redrive answers at ${host}:${port}`);
  try {
    if ((await probePort(host, port)) !== undefined) return ok(name, `${host}:${port} is free`);
    const fix = "stop what listens there, or choose another --port";
    return { name, state: "fail", found: `${host}:${port} is taken`, fix };
  } catch (error) {
    const fix = "choose an address of this machine with --host, and a port above 1023";
    return { name, state: "fail", found: (error as Error).message, fix };
  }
}

/** Whether it is the key of the store is found out by the start, which alone may open that. */
export function checkEncryption(key: string | undefined): Check {
  const name = "encryption";
  if (!key) return ok(name, "none: headers of tasks rest in the store as they came");
  try {
    return ok(name, `headers of tasks are encrypted under key ${assertEncryptionKey(key)}`);
  } catch (error) {
    const fix = "make one with `openssl rand -base64 32`";
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
    if (keys !== undefined) return ok(name, `${keys.list().length} known: every call needs one`);
    if (isLoopback(host)) return ok(name, "none, and none is needed on loopback");
    const fix = "make one with `redrive keys add`, or set REDRIVE_API_KEY";
    if (insecureNoAuth)
      return { name, state: "warn", found: `none: ANYBODY may call ${host}`, fix };
    return { name, state: "fail", found: `none, but ${host} is open to strangers`, fix };
  } catch (error) {
    const fix = "make one with `redrive keys add`";
    return { name, state: "fail", found: (error as Error).message, fix };
  }
}

/** Redrive is younger than this: no right clock is before 2026-01-01. */
const MIN_CLOCK_AT = 1_767_225_600_000;

/** A file from the future tells of a clock that was set back. */
const MAX_SKEW_MS = 5000;

export function checkClock(clock: Clock, store: string): Check {
  const name = "clock";
  const now = clock.now();
  const fix = "set the clock (NTP): waits and deadlines go by it";
  if (now < MIN_CLOCK_AT) return { name, state: "fail", found: "it is before 2026", fix };
  const path = storePath(store);
  const changedAt = path !== undefined && existsSync(path) && statSync(path).mtimeMs;
  if (!changedAt || changedAt <= now + MAX_SKEW_MS) return ok(name, "it runs");
  const found = `the store was written ${formatDuration(changedAt - now)} from now`;
  return { name, state: "warn", found, fix };
}
