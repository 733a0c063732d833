/**
 * Command: runs a program during the setup. Shows only progress while it runs. If it fails, shows
 * its output and throws `SetupFailed`.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { say, startProgress } from "./progress.mjs";
import { inRoot, root } from "./root.mjs";

/** How many lines of a failed command's output are shown from its start and its end. */
const HEAD_LINES = 12;
const TAIL_LINES = 30;

/** The setup cannot continue. The message tells the user why. */
export class SetupFailed extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "SetupFailed";
  }
}

/**
 * @typedef {object} Command
 * @property {string} label printed while the command runs
 * @property {string} program
 * @property {readonly string[]} args
 * @property {string} [cwd] default: the root of the checkout
 * @property {Record<string, string>} [env] added to the environment of this process
 */

/**
 * Runs the command and returns its output. Throws `SetupFailed` on a non-zero exit code.
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
  throw new SetupFailed(`${command.label}: \`${commandLine(command)}\` ${describeExit(exit)}`);
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
 * Returns the npm that started this process, or the one on the PATH. If npm tells its path, runs its
 * JavaScript directly, because on Windows npm is a script.
 * @param {readonly string[]} args
 * @returns {{ program: string, args: readonly string[] }}
 */
export function npm(args) {
  const script = process.env["npm_execpath"];
  if (script?.endsWith("npm-cli.js")) return { program: process.execPath, args: [script, ...args] };
  return { program: process.platform === "win32" ? "npm.cmd" : "npm", args };
}

/**
 * A program from an npm package of this checkout, run with this Node.
 * @param {string} script path below node_modules
 * @param {readonly string[]} args
 * @returns {{ program: string, args: readonly string[] }}
 */
export function nodeScript(script, args) {
  return { program: process.execPath, args: [inRoot("node_modules", script), ...args] };
}

/**
 * Returns the path of the first of `names` that is on the PATH, or undefined.
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
function commandLine(command) {
  return [command.program, ...command.args].join(" ");
}

/** @param {Exit} exit */
function describeExit(exit) {
  if (exit.problem !== "") return `could not run: ${exit.problem}`;
  return exit.signal === null ? `exited with code ${exit.code}` : `was killed by ${exit.signal}`;
}

/** @param {string} text */
function excerptOf(text) {
  const lines = text.trimEnd().split("\n");
  const omitted = lines.length - HEAD_LINES - TAIL_LINES;
  const shown =
    omitted <= 0
      ? lines
      : [...lines.slice(0, HEAD_LINES), `(${omitted} lines omitted)`, ...lines.slice(-TAIL_LINES)];
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
