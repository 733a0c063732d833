/**
 * Build: compiles the packages and bundles the pages if a source has changed since the last build.
 * `tsc -b` could detect that too; the stamps avoid starting it on every `npm start`.
 */
import { existsSync } from "node:fs";
import { nodeScript, runCommand } from "./command.mjs";
import { filesBelow, fingerprint, readStamp, writeStamp } from "./fingerprint.mjs";
import { SETUP_LOCK } from "./install.mjs";
import { withLock } from "./lock.mjs";
import { builtWorkspaces, inRoot } from "./root.mjs";

const STAMP = inRoot("node_modules", ".cache", "redrive", "build");
const PAGES_STAMP = inRoot("node_modules", ".cache", "redrive", "pages");

/** Builds the packages and the pages, unless they are up to date. */
export async function buildPackages() {
  await buildWorkspaces();
  await buildPages();
}

/** Whether the build of the packages is that of the current sources. */
export function isBuildCurrent() {
  return isBuilt(sourcesStamp());
}

/** Changes whenever a source of the packages or of the pages changes. */
export function buildStamp() {
  return `${sourcesStamp()} ${pagesStamp()} ${fingerprint(publishedFiles(), [])}`;
}

/** Files besides the build that tarballs contain, and the code that packs them. */
function publishedFiles() {
  const folders = builtWorkspaces.flatMap((workspace) =>
    ["README.md", "bin", "scenarios"].map((name) => inRoot(workspace, name)),
  );
  return [...folders, inRoot("tools", "publish"), inRoot("LICENSE")]
    .filter((path) => existsSync(path))
    .flatMap(filesBelow);
}

async function buildWorkspaces() {
  if (isBuilt(sourcesStamp())) return;
  await withLock(SETUP_LOCK, "another setup of this checkout", async () => {
    const stamp = sourcesStamp();
    if (isBuilt(stamp)) return;
    await runCommand({ label: "Building (tsc -b)", ...nodeScript("typescript/bin/tsc", ["-b"]) });
    writeStamp(STAMP, stamp);
  });
}

/** The pages are bundled from the sources of their imports, so tsc need not run first. */
async function buildPages() {
  if (arePagesBuilt(pagesStamp())) return;
  await withLock(SETUP_LOCK, "another setup of this checkout", async () => {
    const stamp = pagesStamp();
    if (arePagesBuilt(stamp)) return;
    const vite = nodeScript("vite/bin/vite.js", ["build", inRoot("apps", "web")]);
    await runCommand({ label: "Building the pages (vite build)", ...vite });
    writeStamp(PAGES_STAMP, stamp);
  });
}

/** @param {string} stamp */
function arePagesBuilt(stamp) {
  return (
    readStamp(PAGES_STAMP) === stamp && existsSync(inRoot("apps", "web", "dist", "index.html"))
  );
}

function pagesStamp() {
  const paths = ["apps/web", "core/src", "core/package.json", "faces/simulator"].map((path) =>
    inRoot(path),
  );
  return fingerprint(
    paths.flatMap(filesBelow).filter((path) => !path.endsWith(".test.ts")),
    [],
  );
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
