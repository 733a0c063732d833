/** Postpack: removes the files that `prepack.mjs` copied. npm runs it after creating the tarball. */
import { rmSync } from "node:fs";
import process from "node:process";
import { packedFiles } from "./packed-files.mjs";

for (const { to } of packedFiles(process.cwd())) rmSync(to, { recursive: true, force: true });
