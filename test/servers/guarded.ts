/**
 * Guarded: starts a server under `tools/guard.mjs`, in its own temporary folder. The guard ends the
 * server and removes the folder at `stop` or when this process dies, however the test ends.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { GuardSpec } from "../../tools/guard.mjs";
import { GUARDED_PREFIX } from "../../tools/test-run.mjs";

/** Characters of a server's log to keep for error messages. */
const LOG_CHARACTERS = 20_000;

const GUARD = fileURLToPath(new URL("../../tools/guard.mjs", import.meta.url));

/** The user of a server that refuses to run as root. */
export interface User {
  readonly uid: number;
  readonly gid: number;
}

export interface Guarded {
  /** Resolves when the log matches `pattern`. Rejects with the log if the server ends first. */
  waitFor(pattern: RegExp): Promise<void>;

  /** Also ends this process at the end. */
  watch(pid: number): void;

  /** Stops the server and removes its folder. Safe to call twice. */
  stop(): Promise<void>;
}

/** Creates a folder for one server, owned by `user` if given. */
export function guardedFolder(name: string, user?: User): string {
  const folder = mkdtempSync(join(tmpdir(), `${GUARDED_PREFIX}${name}-`));
  chmodSync(folder, 0o700);
  if (user !== undefined) chownSync(folder, user.uid, user.gid);
  return folder;
}

export function startGuarded(spec: GuardSpec): Guarded {
  const guard = spawn(process.execPath, [GUARD, JSON.stringify(spec)], {
    // A separate process group, so that Ctrl-C in a terminal does not kill the guard.
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  const ended = once(guard, "close");
  const log = keepLog(guard);
  return {
    waitFor: (pattern) => waitFor(log, ended, pattern),
    watch: (pid) => void guard.stdin.write(`${pid}\n`),
    async stop() {
      guard.stdin.end();
      await ended;
    },
  };
}

interface Log {
  text: string;
  onText: () => void;
}

function keepLog(guard: ChildProcess): Log {
  const log: Log = { text: "", onText: () => {} };
  const keep = (text: string) => {
    log.text = (log.text + text).slice(-LOG_CHARACTERS);
    log.onText();
  };
  guard.stdout?.setEncoding("utf8").on("data", keep);
  guard.stderr?.setEncoding("utf8").on("data", keep);
  return log;
}

function waitFor(log: Log, ended: Promise<unknown>, pattern: RegExp): Promise<void> {
  return new Promise((resolve, reject) => {
    log.onText = () => {
      if (pattern.test(log.text)) resolve();
    };
    log.onText();
    const fail = () => reject(new Error(`the server ended before it was ready:\n${log.text}`));
    ended.then(fail, fail);
  });
}
