/** Tests that only one process can use a file, whatever name it uses. */
// needs: build
import { spawnSync } from "node:child_process";
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { Child } from "./child.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-second-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const options = {
  targetUrl: "http://127.0.0.1:9999/",
  mode: "store",
  from: 0,
  callers: 1,
} as const;

const file = join(folder, "data", "redrive.db");
const other = (name: string) => {
  mkdirSync(join(folder, name));
  return join(folder, name, "redrive.db");
};

type Skip = (reason: string) => never;

/** Each makes a second name of the file and returns it. */
const NAMES: Readonly<Record<string, (skip: Skip) => string>> = {
  "the same name": () => file,
  "a relative path": () => relative(process.cwd(), file),
  "a symbolic link to the file": () => {
    const name = other("link");
    symlinkSync(file, name);
    return name;
  },
  "a symbolic link to its folder": () => {
    symlinkSync(dirname(file), join(folder, "linked-data"));
    return join(folder, "linked-data", "redrive.db");
  },
  "a hard link": () => {
    const name = other("hard");
    linkSync(file, name);
    onTestFinished(() => rmSync(name));
    return name;
  },
  "a mount of its folder": (skip) => {
    const name = other("mounted-folder");
    bind(dirname(file), dirname(name), skip);
    return name;
  },
  "a mount of the file": (skip) => {
    const name = other("mounted-file");
    writeFileSync(name, "");
    bind(file, name, skip);
    return name;
  },
};

function bind(source: string, target: string, skip: Skip): void {
  const { status, stderr } = spawnSync("mount", ["--bind", source, target]);
  if (status !== 0) skip(`this user may not mount: ${stderr}`);
  onTestFinished(() => void spawnSync("umount", [target]));
}

async function refusalOf(name: string): Promise<string> {
  const second = new Child({ ...options, file: name, count: 1 });
  expect(await second.ended()).not.toBe(0);
  expect(second.acknowledged()).toEqual([]);
  return second.stderr;
}

describe("a second process on the same file", () => {
  let first: Child;
  beforeAll(async () => {
    first = new Child({ ...options, file, count: 1_000_000 });
    await first.said("ack");
  });
  afterAll(() => first.kill());

  it.for(Object.entries(NAMES))("is refused under %s, and says why", async ([, makeName], test) => {
    // skipped: only where this user may not mount
    const refusal = await refusalOf(makeName(test.skip));
    expect(refusal).toContain("one process per file");
    expect(refusal).toContain("STORE_IN_USE");
  });

  it("does not affect the first one, and may start when that one ends", async () => {
    const before = first.acknowledged().length;
    // Without another acknowledgment, the test reaches its time limit.
    while (first.acknowledged().length === before) {
      await new Promise<void>((resolve) => {
        first.process.stdout?.once("data", () => resolve());
      });
    }
    expect(first.acknowledged().length).toBeGreaterThan(before);
    await first.kill();
    const third = new Child({ ...options, file, from: 2_000_000, count: 3 });
    expect(await third.ended()).toBe(0);
    expect(third.acknowledged()).toHaveLength(3);
  });
});

describe("another name of a file that is not in use", () => {
  it("is refused after a crash: the log is at the first name", async () => {
    const crashed = join(folder, "crashed", "redrive.db");
    const first = new Child({ ...options, file: crashed, count: 1_000_000 });
    await first.said("ack");
    await first.kill();
    const name = other("after-crash");
    linkSync(crashed, name);
    expect(await refusalOf(name)).toContain("has 2 names (hard links)");
    expect(await refusalOf(crashed)).toContain("has 2 names (hard links)");
    rmSync(crashed);
    expect(await refusalOf(name)).toContain("its ledger is missing, and it was not closed");
  });
});
