/**
 * Packed: packs the built packages and installs the tarballs into an empty project, as a user would.
 * The tests that use published packages share this project. It is made again when the build changes.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { stagePackage } from "../publish/stage-package.mjs";
import { buildPackages, buildStamp } from "./build.mjs";
import { npm, runCommand } from "./command.mjs";
import { readStamp, writeStamp } from "./fingerprint.mjs";
import { withLock } from "./lock.mjs";
import { builtWorkspaces, inRoot, root } from "./root.mjs";

const FOLDER = inRoot("node_modules", ".cache", "redrive", "packed");
const STAMP = join(FOLDER, "stamp");

/** The project that has the packages installed, and the folder of the tarballs. */
export const packedApp = join(FOLDER, "app");
export const packedTarballs = join(FOLDER, "tarballs");

/** Packs and installs the packages, unless that is up to date. */
export async function installPacked() {
  await buildPackages();
  const stamp = buildStamp();
  if (readStamp(STAMP) === stamp) return;
  await withLock(`${FOLDER}.lock`, "another test run that packs the packages", async () => {
    if (readStamp(STAMP) === stamp) return;
    rmSync(FOLDER, { recursive: true, force: true });
    await packInto(packedTarballs);
    await installInto(packedApp);
    writeStamp(STAMP, stamp);
  });
}

/**
 * Writes one tarball per package into a folder.
 * @param {string} folder
 */
export async function packInto(folder) {
  const staging = join(folder, ".staging");
  try {
    for (const workspace of builtWorkspaces) stagePackage(workspace, join(staging, workspace));
    const staged = builtWorkspaces.map((workspace) => join(staging, workspace));
    const args = ["pack", "--silent", "--pack-destination", folder, ...staged];
    await runCommand({ label: "Packing the packages (npm pack)", ...npm(args) });
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}

/** @param {string} app */
async function installInto(app) {
  mkdirSync(join(app, "node_modules"), { recursive: true });
  writeFileSync(join(app, "package.json"), '{ "name": "app", "type": "module" }\n');
  await copyDependencies(app);
  const tarballs = readdirSync(packedTarballs).map((name) => join(packedTarballs, name));
  const quiet = ["--offline", "--no-audit", "--no-fund", "--ignore-scripts"];
  const install = npm(["install", ...quiet, ...tarballs]);
  await runCommand({ label: "Installing the packed packages (npm install)", ...install, cwd: app });
}

/**
 * Copies third-party packages from the checkout, so that npm needs no network.
 * @param {string} app
 */
async function copyDependencies(app) {
  const workspaces = builtWorkspaces.flatMap((name) => ["--workspace", name]);
  const args = ["ls", "--omit=dev", "--all", "--parseable", "--loglevel=error", ...workspaces];
  const list = await runCommand({ label: "Listing the dependencies (npm ls)", ...npm(args) });
  for (const path of new Set(list.trim().split("\n"))) {
    const name = relative(root, path);
    if (!name.startsWith("node_modules/") || isOwn(name) || !existsSync(path)) continue;
    const target = join(app, name);
    mkdirSync(dirname(target), { recursive: true });
    cpSync(path, target, { recursive: true });
  }
}

/** @param {string} name */
function isOwn(name) {
  return name.includes("/@redrive/") || basename(name) === "redrive";
}
