/**
 * Command: runs a program on behalf of the set-up. Quiet while it works, with progress; when it
 * fails, what it printed is shown and `SetupFailed` is thrown.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { say, startProgress } from "./progress.mjs";
import { inRoot, root } from "./root.mjs";

/** Of a failed command, this much is shown: where it began to go wrong, and where it ended. */
const HEAD_LINES = 12;
const TAIL_LINES = 30;

/** The set-up cannot go on; the message says why, in words for whoever ran it. */
export class SetupFailed extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "SetupFailed";
  }
}

/**
 * @typedef {object} Command
 * @property {string} label what the reader is told is happening
 * @property {string} program
 * @property {readonly string[]} args
 * @property {string} [cwd] default: the clone's root
 * @property {Record<string, string>} [env] added to this process's own
 */

/**
 * Runs to the end, returning everything printed. Throws `SetupFailed` on a non-zero exit.
 * @param {Command} command
 * @returns {Promise<string>}
 */
export async function runCommand(command) {
  let output = "";
  const progress = startProgress(command.label, () => lastLine(output));
  const exit = await spawnAndCollect(command, (text) => {
    output += text;
  });
  progress.end(exit.code === 0 ? "done" : "failed");
  if (exit.code === 0) return output;
  say(excerptOf(`${output}${exit.problem}`));
  throw new SetupFailed(`${command.label}: \`${spell(command)}\` ${describeExit(exit)}`);
}

/** @typedef {{ code: number | null, signal: string | null, problem: string }} Exit */

/**
 * @param {Command} command
 * @param {(text: string) => void} onText
 * @returns {Promise<Exit>}
 */
export function spawnAndCollect(command, onText) {
  return new Promise((resolve) => {
    const child = spawn(command.program, command.args, {
      cwd: command.cwd ?? root,
      env: { ...process.env, ...command.env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    child.stdout.setEncoding("utf8").on("data", onText);
    child.stderr.setEncoding("utf8").on("data", onText);
    child.on("error", (error) => resolve({ code: null, signal: null, problem: error.message }));
    child.on("close", (code, signal) => resolve({ code, signal, problem: "" }));
  });
}

/**
 * npm as it was called, or the one on the PATH. On Windows that is a script, so npm's own
 * JavaScript is run instead whenever it says where it is.
 * @param {readonly string[]} args
 * @returns {{ program: string, args: readonly string[] }}
 */
export function npm(args) {
  const script = process.env["npm_execpath"];
  if (script?.endsWith("npm-cli.js")) return { program: process.execPath, args: [script, ...args] };
  return { program: process.platform === "win32" ? "npm.cmd" : "npm", args };
}

/**
 * A program that an npm package in this clone brings, run by this very Node.
 * @param {string} script path below node_modules
 * @param {readonly string[]} args
 * @returns {{ program: string, args: readonly string[] }}
 */
export function nodeScript(script, args) {
  return { program: process.execPath, args: [inRoot("node_modules", script), ...args] };
}

/**
 * Where the first of `names` is on the PATH, or undefined.
 * @param {readonly string[]} names
 * @returns {string | undefined}
 */
export function findProgram(names) {
  const folders = (process.env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
  for (const name of names) {
    const found = folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** @param {Command} command */
function spell(command) {
  return [command.program, ...command.args].join(" ");
}

/** @param {Exit} exit */
function describeExit(exit) {
  if (exit.problem !== "") return `could not be run: ${exit.problem}`;
  return exit.signal === null ? `ended with exit code ${exit.code}` : `was ended by ${exit.signal}`;
}

/** @param {string} text */
function excerptOf(text) {
  const lines = text.trimEnd().split("\n");
  const left = lines.length - HEAD_LINES - TAIL_LINES;
  const shown =
    left <= 0
      ? lines
      : [...lines.slice(0, HEAD_LINES), `(${left} lines left out)`, ...lines.slice(-TAIL_LINES)];
  return shown.map((line) => `  | ${line}`).join("\n");
}

/** @param {string} text */
function lastLine(text) {
  return (
    text
      .trimEnd()
      .split(/[\r\n]/u)
      .at(-1) ?? ""
  );
}
