/**
 * Orphan: detects that npm has ended. npm runs a script through a shell, so a signal to npm ends npm,
 * or npm and the shell, but does not reach the script. The script can only see that they are gone.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

const POLL_MS = 250;
const SHELL = /(?:^|\/)-?(?:sh|bash|dash|zsh|ash|ksh)$/u;

/**
 * Calls `stop` once when the npm that started this process has ended. Does nothing without npm,
 * because a script that a user starts in the background should continue.
 * @param {() => void} stop
 */
export function whenOrphaned(stop) {
  if (process.env["npm_lifecycle_event"] === undefined) return;
  const shell = process.ppid;
  const npm = npmAbove(shell);
  const timer = setInterval(() => {
    if (process.ppid === shell && (npm === undefined || isAlive(npm))) return;
    clearInterval(timer);
    stop();
  }, POLL_MS);
  timer.unref();
}

/**
 * Returns the parent of our parent, if our parent is the shell that npm started.
 * @param {number} parent
 * @returns {number | undefined}
 */
function npmAbove(parent) {
  try {
    const { name, above } = process.platform === "linux" ? fromProc(parent) : fromPs(parent);
    return SHELL.test(name) ? above : undefined;
  } catch {
    return undefined;
  }
}

/**
 * For Linux, where `ps` may be missing. The name in parentheses may contain anything, so the fields
 * are counted from its end: the state, then the parent.
 * @param {number} pid
 */
function fromProc(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const end = stat.lastIndexOf(")");
  const above = Number(stat.slice(end + 2).split(" ")[1]);
  return { name: stat.slice(stat.indexOf("(") + 1, end), above };
}

/** @param {number} pid */
function fromPs(pid) {
  const line = execFileSync("ps", ["-o", "ppid=,comm=", "-p", String(pid)], { encoding: "utf8" });
  const [above, ...name] = line.trim().split(/\s+/u);
  return { name: name.join(" "), above: Number(above) };
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
