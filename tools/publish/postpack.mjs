/** Postpack: run by npm once the tarball is made; takes out again what `prepack.mjs` put in. */
import { rmSync } from "node:fs";
import process from "node:process";
import { lentParts } from "./lent-parts.mjs";

for (const { to } of lentParts(process.cwd())) rmSync(to, { recursive: true, force: true });
