#!/usr/bin/env node
/** The `redrive` command. This file exists before the build, so that npm can link to it. */
import { existsSync } from "node:fs";

const main = new URL("../dist/main.js", import.meta.url);
if (existsSync(main)) {
  await import(main.href);
} else {
  process.stderr.write("redrive is not built yet: run `npm run build` (or `npm start`) first.\n");
  process.exitCode = 1;
}
