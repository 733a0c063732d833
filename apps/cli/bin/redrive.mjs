#!/usr/bin/env node
/**
 * The `redrive` command. This file exists before the build, so that npm can link to it. It uses only
 * syntax and imports that old versions of Node understand, so that they print a sentence and no stack trace.
 */
import { existsSync } from "node:fs";
import module from "node:module";

/** Equal to `engines` in package.json. */
const MIN_NODE = [20, 19];

/** Compiles each file once, not at every start. Node has it since version 22. */
const { enableCompileCache } = /** @type {{ readonly enableCompileCache?: () => void }} */ (module);

const main = new URL("../dist/main.js", import.meta.url);
if (isTooOld(process.versions.node)) {
  fail(
    `redrive needs Node ${MIN_NODE.join(".")} or newer, but this is Node ${process.versions.node}. Install a newer version and try again.`,
  );
} else if (existsSync(main)) {
  enableCompileCache?.();
  await import(main.href);
} else {
  fail("redrive is not built yet: run `npm run build` (or `npm start`) first.");
}

/** @param {string} version */
function isTooOld(version) {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [minMajor = 0, minMinor = 0] = MIN_NODE;
  return major < minMajor || (major === minMajor && minor < minMinor);
}

/** @param {string} message */
function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exitCode = 1;
}
