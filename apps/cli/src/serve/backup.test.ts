/** Tests of the commands that work on the file of a store: backup, restore and doctor --repair. */
import { copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRedrive } from "@redrive/service";
import { afterAll, describe, expect, test } from "vitest";
import { redrive } from "../program.testing.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-commands-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const nextFile = () => join(folder, `${++files}.db`);

const open = (file: string) => createRedrive({ store: `sqlite:${file}` });

async function addTask(file: string): Promise<void> {
  const service = await open(file);
  await service.enqueue({ targetUrl: "https://example.com/", scheduledAt: Date.now() + 3_600_000 });
  await service.stop();
}

async function countTasks(file: string): Promise<number> {
  const service = await open(file);
  const { tasks } = await service.list();
  await service.stop();
  return tasks.length;
}

describe("backup and restore", () => {
  test("copy a store in use, and put the copy in the place of another store", async () => {
    const file = nextFile();
    await addTask(file);
    const service = await open(file);
    const copy = `${file}.copy`;
    const made = await redrive(`backup ${file} --to ${copy}`);
    expect(made).toMatchObject({ code: 0, out: expect.stringContaining("1 task, ") });
    const again = await redrive(`backup --store sqlite:${file} --to ${copy} --json`);
    expect(again).toMatchObject({ code: 2, err: expect.stringContaining("must be a new file") });
    const used = await redrive(`restore ${copy} --store sqlite:${file} --force`);
    expect(used).toMatchObject({ code: 1, err: expect.stringContaining("is in use") });
    await service.stop();

    await addTask(file);
    const refused = await redrive(`restore ${copy} --store sqlite:${file}`);
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining("--force") });
    const restored = await redrive(`restore ${copy} --store sqlite:${file} --force --json`);
    expect(JSON.parse(restored.out)).toMatchObject({ tasks: 1, kept: `${file}.old-1` });
    expect(await countTasks(file)).toBe(1);
    expect(await countTasks(`${file}.old-1`)).toBe(2);
  });

  test("report a file that is no store, and a store without a file", async () => {
    const file = nextFile();
    writeFileSync(file, "not a database ".repeat(400));
    expect(await redrive(`backup ${file} --to ${file}.copy`)).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^error: .* is not a database/u),
    });
    expect(existsSync(`${file}.copy`)).toBe(false);
    expect(await redrive(`restore ${file} --store sqlite:${file}.new`)).toMatchObject({ code: 1 });
    expect(await redrive(`backup --store memory: --to ${file}.copy`)).toMatchObject({ code: 2 });
  });
});

describe("doctor --repair", () => {
  test("says what is missing, and accepts it only when told to", async () => {
    const file = nextFile();
    await addTask(file);
    expect(await redrive(`doctor --repair --store sqlite:${file}`)).toMatchObject({ code: 0 });
    copyFileSync(file, `${file}.before`);
    await addTask(file);
    copyFileSync(`${file}.before`, file);
    await expect(open(file)).rejects.toMatchObject({ code: "STORE_DAMAGED" });

    const found = await redrive(`doctor --repair --store sqlite:${file}`);
    expect(found.code).toBe(1);
    expect(found.out).toMatch(/missing {5}\d+ of \d+ commits are missing/u);
    expect(found.out).toMatch(/saved {7}1 task, the newest created/u);
    expect(found.out).toContain("redrive doctor --repair --accept-loss");
    const checks = await redrive(`doctor --port 0 --store sqlite:${file}`);
    expect(checks).toMatchObject({ code: 1, out: expect.stringContaining("--repair") });

    const accepted = await redrive(`doctor --repair --accept-loss --store sqlite:${file} --json`);
    expect(accepted.code).toBe(0);
    expect(JSON.parse(accepted.out)).toMatchObject({
      accepted: true,
      tasks: 1,
      kept: `${file}.damaged-1`,
    });
    expect(await countTasks(file)).toBe(1);
    expect(await redrive(`doctor --accept-loss --store sqlite:${file}`)).toMatchObject({ code: 2 });
  });
});
