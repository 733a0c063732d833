/**
 * Build: compiles the packages when a source differs from the last build. `tsc -b` would find out
 * by itself; the stamp spares its start on every `npm start`.
 */
import { existsSync } from "node:fs";
import { nodeScript, runCommand } from "./command.mjs";
import { filesBelow, fingerprint, readStamp, writeStamp } from "./fingerprint.mjs";
import { SETUP_LOCK } from "./install.mjs";
import { withLock } from "./lock.mjs";
import { builtWorkspaces, inRoot } from "./root.mjs";

const STAMP = inRoot("node_modules", ".cache", "redrive", "build");

/** Builds every package, unless their sources are those of the last build. */
export async function buildPackages() {
  if (isBuilt(sourcesStamp())) return;
  await withLock(SETUP_LOCK, "another set-up of this clone", async () => {
    const stamp = sourcesStamp();
    if (isBuilt(stamp)) return;
    await runCommand({ label: "Building (tsc -b)", ...nodeScript("typescript/bin/tsc", ["-b"]) });
    writeStamp(STAMP, stamp);
  });
}

/** @param {string} stamp */
function isBuilt(stamp) {
  const outputs = builtWorkspaces.map((workspace) => inRoot(workspace, "dist", ".tsbuildinfo"));
  return readStamp(STAMP) === stamp && outputs.every((path) => existsSync(path));
}

function sourcesStamp() {
  const workspaces = builtWorkspaces.flatMap((workspace) => [
    inRoot(workspace, "package.json"),
    inRoot(workspace, "tsconfig.json"),
    inRoot(workspace, "src"),
  ]);
  const paths = [inRoot("tsconfig.base.json"), inRoot("tsconfig.json"), ...workspaces];
  return fingerprint(
    paths.flatMap(filesBelow).filter((path) => !path.endsWith(".test.ts")),
    [],
  );
}
