/** The tarballs, checked with the tools that package authors use, and by their files. */
// needs: packed
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { describe, expect, test } from "vitest";
import { nodeScript } from "../../tools/setup/command.mjs";
import { packedApp, packedTarballs } from "../../tools/setup/packed.mjs";
import { builtWorkspaces, inRoot } from "../../tools/setup/root.mjs";
import { run } from "./packed-project.ts";

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly exports?: Readonly<Record<string, unknown>>;
  readonly [field: string]: unknown;
}

const packages = builtWorkspaces.map((workspace) => {
  const manifest = JSON.parse(readFileSync(inRoot(workspace, "package.json"), "utf8")) as Manifest;
  const folder = join(packedApp, "node_modules", manifest.name);
  const file = `${manifest.name.replace("@", "").replace("/", "-")}-${manifest.version}.tgz`;
  return [manifest.name, { folder, tarball: join(packedTarballs, file) }] as const;
});

test("there is one tarball per package", () => {
  const names = packages.map(([, { tarball }]) => tarball).toSorted();
  expect(
    readdirSync(packedTarballs)
      .map((name) => join(packedTarballs, name))
      .toSorted(),
  ).toEqual(names);
});

describe.each(packages)("%s", (_, { folder, tarball }) => {
  const manifest = (): Manifest => JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

  test("publint finds nothing", async () => {
    const output = await run(nodeScript("publint/src/cli.js", [tarball, "--strict"]), packedApp);
    expect(output).toContain("All good!");
  });

  test("are the types wrong? finds nothing", async () => {
    if (manifest().exports === undefined) return;
    // The resolution of Node 10 knows no `exports`. It exits with 1 if it finds a problem.
    // Its usual format depends on the width of the terminal.
    const args = [tarball, "--profile", "node16", "--format", "ascii"];
    const output = await run(nodeScript("@arethetypeswrong/cli/dist/index.js", args), packedApp);
    expect(output).toContain("node16 (from CJS): 🟢 (CJS)");
  });

  test("has a page, a license, and the fields that npm shows", () => {
    const fields = manifest();
    for (const field of ["description", "license", "keywords", "homepage", "repository", "bugs"]) {
      expect(fields[field], field).toBeTruthy();
    }
    expect(fields).not.toHaveProperty("private");
    expect(fields).not.toHaveProperty("devDependencies");
    expect(existsSync(join(folder, "LICENSE"))).toBe(true);
    expect(readFileSync(join(folder, "README.md"), "utf8")).toMatch(
      /^# .+\n\n```sh[^\n]*\nnp[mx] /u,
    );
  });

  test("refers to no source map, and contains no tests and no sources", () => {
    const files = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.parentPath.includes(`${sep}pages`))
      .map((entry) => join(entry.parentPath, entry.name));
    expect(files.length).toBeGreaterThan(5);
    const wrong = files.filter(
      (path) =>
        /\.(?:map|tsbuildinfo)$|\.test\.|\.testing\.|(?<!\.d)\.ts$/u.test(path) ||
        readFileSync(path, "utf8").includes("sourceMappingURL="),
    );
    expect(wrong).toEqual([]);
  });
});
