/**
 * Guarded: starts a server under `tools/guard.mjs`, in a temporary folder of its own. Whatever
 * becomes of the test, the server ends and the folder goes: at `stop`, or when this process dies.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { GuardSpec } from "../../tools/guard.mjs";
import { GUARDED_PREFIX } from "../../tools/test-run.mjs";

/** How much of a server's log is kept for error messages. */
const LOG_CHARACTERS = 20_000;

const GUARD = fileURLToPath(new URL("../../tools/guard.mjs", import.meta.url));

/** A user to run as, when this process is root and the server refuses to be. */
export interface User {
  readonly uid: number;
  readonly gid: number;
}

export interface Guarded {
  /** Resolves when the log shows `pattern`; rejects, quoting the log, when the server ends first. */
  waitFor(pattern: RegExp): Promise<void>;

  /** Stops the server and removes its folder. Safe to call twice. */
  stop(): Promise<void>;
}

/** A fresh folder for one server, owned by `user` when one is given. */
export function guardedFolder(name: string, user?: User): string {
  const folder = mkdtempSync(join(tmpdir(), `${GUARDED_PREFIX}${name}-`));
  chmodSync(folder, 0o700);
  if (user !== undefined) chownSync(folder, user.uid, user.gid);
  return folder;
}

export function startGuarded(spec: GuardSpec): Guarded {
  const guard = spawn(process.execPath, [GUARD, JSON.stringify(spec)], {
    // A group of its own, so that Ctrl-C in a terminal does not take the guard with the test.
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  const ended = once(guard, "close");
  const log = keepLog(guard);
  return {
    waitFor: (pattern) => waitFor(log, ended, pattern),
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
