/** Tests of `redrive export` and `redrive import`: files, refusals and exit codes. */
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { createRedrive } from "@redrive/service";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { redrive } from "../program.testing.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-transfer-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = join(folder, "exported");
const source = `sqlite:${join(folder, "source.db")}`;
let files = 0;
const nextStore = () => `sqlite:${join(folder, `${++files}.db`)}`;

let lines: readonly string[] = [];
beforeAll(async () => {
  const service = await createRedrive({ store: source });
  for (const idempotencyKey of ["a", "b", "c"]) {
    await service.enqueue({
      targetUrl: "https://example.com/",
      scheduledAt: Date.now() + 3_600_000,
      idempotencyKey,
      body: Buffer.from([0, 255, 10]),
    });
  }
  await service.stop();
  expect(await redrive(`export --store ${source} --out ${file}`)).toMatchObject({
    code: 0,
    out: "",
    err: expect.stringContaining("exported 3 tasks, 0 attempts"),
  });
  lines = readFileSync(file, "utf8").trimEnd().split("\n");
});

/** Imports changed lines into a new store. */
async function importLines(changed: readonly string[], more = "", ending = "\n") {
  const path = join(folder, `changed-${++files}`);
  writeFileSync(path, changed.join("\n") + ending);
  return redrive(`import --store ${nextStore()} --in ${path} ${more}`);
}

describe("an export", () => {
  test("is a private file that appears when it is complete, and standard output has the same", async () => {
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder).filter((name) => name.endsWith(".part"))).toEqual([]);
    const { out, code } = await redrive(`export --store ${source}`);
    expect(code).toBe(0);
    expect(out.trimEnd().split("\n").slice(1, -1)).toEqual(lines.slice(1, -1));
    const header = JSON.parse(lines[0] ?? "");
    expect(header).toMatchObject({
      kind: "header",
      format: "redrive-store",
      version: 1,
      store: "sqlite",
    });
    expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({ kind: "trailer", rows: { task: 3 } });
  });

  test("refuses a file that exists, a store that does not, one in memory, and several", async () => {
    const existing = await redrive(`export --store ${source} --out ${file}`);
    expect(existing).toMatchObject({ code: 2, err: expect.stringContaining("must be a new file") });
    const missing = await redrive(`export --store sqlite:${folder}/none.db`);
    expect(missing).toMatchObject({ code: 2, err: expect.stringContaining("must exist") });
    expect(existsSync(join(folder, "none.db"))).toBe(false);
    const memory = await redrive("export --store memory:");
    expect(memory).toMatchObject({ code: 2, err: expect.stringContaining("in memory") });
    const several = await redrive(
      "export --store postgres://127.0.0.1:1/a,postgres://127.0.0.1:1/b",
    );
    expect(several).toMatchObject({ code: 2, err: expect.stringContaining("got 2: postgres") });
    const server = await redrive("export --store postgres://127.0.0.1:1/none");
    expect(server).toMatchObject({ code: 1, err: expect.stringContaining("ECONNREFUSED") });
  });

  test("says where the large bodies are, and the new store uses them there", async () => {
    const [from, to] = [nextStore(), nextStore()];
    const first = await createRedrive({ store: from });
    const { taskId } = await first.enqueue({
      targetUrl: "https://example.com/",
      scheduledAt: Date.now() + 3_600_000,
      body: Buffer.alloc(70_000, "x"),
    });
    await first.stop();
    const moved = `${file}-large`;
    const { err } = await redrive(`export --store ${from} --out ${moved}`);
    const [, blobs = ""] = /--blobs (file:\S+),/u.exec(err) ?? [];
    await redrive(`import --store ${to} --in ${moved}`);
    const second = await createRedrive({ store: to, blobs });
    const task = await second.get(taskId);
    const body = task && (await buffer(await second.bodies.open(task)));
    expect(body).toHaveLength(70_000);
    await second.stop();
  });

  test("leaves no file behind if it fails", async () => {
    const service = await createRedrive({ store: source });
    const used = await redrive(`export --store ${source} --out ${folder}/used`);
    await service.stop();
    expect(used).toMatchObject({ code: 1, err: expect.stringContaining("in use") });
    expect(existsSync(join(folder, "used"))).toBe(false);
    expect(existsSync(join(folder, "used.part"))).toBe(false);
  });
});

describe("an import", () => {
  test("adds each row once, and a dry run adds none", async () => {
    const store = nextStore();
    const into = async (more = "") => {
      const { code, out } = await redrive(`import --store ${store} --in ${file} --json ${more}`);
      return { code, ...JSON.parse(out) };
    };
    const count = lines.length - 2;
    expect(await into("--dry-run")).toMatchObject({ code: 0, added: count, same: 0, dryRun: true });
    expect(await into()).toMatchObject({ code: 0, added: count, same: 0, different: [] });
    expect(await into()).toMatchObject({ code: 0, added: 0, same: count });
    const { out } = await redrive(`export --store ${store}`);
    expect(out.trimEnd().split("\n").slice(1, -1)).toEqual(lines.slice(1, -1));
  });

  test("writes nothing if the store has another row", async () => {
    const store = nextStore();
    await redrive(`import --store ${store} --in ${file}`);
    const service = await createRedrive({ store });
    const [task] = (await service.list()).tasks;
    await service.cancel(task?.taskId ?? "");
    await service.stop();
    const before = (await redrive(`export --store ${store}`)).out.split("\n").slice(1, -2);
    const refused = await redrive(`import --store ${store} --in ${file}`);
    expect(refused.code).toBe(1);
    expect(refused.out).toMatch(`the store has another task default ${task?.taskId}`);
    const after = (await redrive(`export --store ${store}`)).out.split("\n").slice(1, -2);
    expect(after).toEqual(before);
  });

  test("refuses a file that is not complete", async () => {
    const cut = await importLines(lines.slice(0, -1));
    const last = `truncated: it ends after line ${lines.length - 1}, without the trailer`;
    expect(cut).toMatchObject({ code: 2, err: expect.stringContaining(last) });
    const within = await importLines([...lines.slice(0, 3), lines[3]?.slice(0, 40) ?? ""], "", "");
    expect(within.err).toContain("line 4: the file is truncated within this line");
    expect((await importLines([], "", "")).err).toContain("truncated: it is empty");
    const fewer = await importLines(lines.toSpliced(2, 1));
    expect(fewer.err).toMatch(/line \d+: the file has \d+ of \d+ rows of the kind/u);
  });

  test("refuses a damaged, foreign or exchanged line, and names it", async () => {
    const at = lines.findIndex((line) => line.includes('"kind":"task"'));
    const damaged = lines.with(at, lines[at]?.replace("PENDING", "PENDINF") ?? "");
    expect(await importLines(damaged)).toMatchObject({
      code: 2,
      err: expect.stringContaining(`line ${at + 1}: it is damaged: its checksum does not match`),
    });
    const foreign = await importLines(lines.with(at, '{"task":{}}'));
    expect(foreign.err).toContain(`line ${at + 1}: it is not a line of an export`);
    const [one = "", two = ""] = lines.slice(at, at + 2);
    const exchanged = await importLines(lines.with(at, two).with(at + 1, one));
    expect(exchanged.err).toContain(`line ${lines.length}: the file is damaged`);
    const twice = await importLines([...lines, lines.at(-1) ?? ""]);
    expect(twice.err).toContain(`line ${lines.length + 1}: it follows the trailer`);
    const headless = await importLines(lines.slice(1));
    expect(headless.err).toContain("line 1: the file does not begin with the header");
  });

  test("says what is missing or wrong in its arguments", async () => {
    const none = await redrive(`import --store ${nextStore()} --in ${folder}/nothing`);
    expect(none).toMatchObject({ code: 2, err: expect.stringContaining("there is no such file") });
    const unnamed = await redrive(`import --store ${nextStore()}`, { isInteractive: true });
    expect(unnamed).toMatchObject({ code: 2, err: expect.stringContaining("--in") });
    const memory = await redrive(`import --store memory: --in ${file}`);
    expect(memory.code).toBe(2);
  });
});
