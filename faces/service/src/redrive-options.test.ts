/** Tests of the options of `createRedrive`: what is refused, and that a refusal leaves nothing open. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createRedrive } from "./create-redrive.ts";
import type { RedriveOptions } from "./redrive-options.ts";
import { memoryStore } from "./stores/memory/memory-store.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-options-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const open = (options: object) =>
  createRedrive({ store: "memory:", ...options } as RedriveOptions).then(
    (redrive) => redrive.stop(0).then(() => "accepted"),
    (error) => `${error.code}: ${error.message}`,
  );

describe("the options of createRedrive", () => {
  it.each<[object, string]>([
    [{ retentionMs: -1 }, "retentionMs must be a whole number from 1000 to 31536000000, got -1"],
    [{ deadLetterRetentionMs: Number.NaN }, "got NaN"],
    [{ retention: 1000 }, 'unknown field "retention"'],
    [{ allowTarget: "" }, 'unknown field "allowTarget", did you mean "allowTargets"?'],
    [{ targets: "all" }, 'targets must be one of loopback, public, got "all"'],
    [{ allowTargets: ["a"] }, 'allowTargets must be a string, got ["a"]'],
    [{ allowTargets: "http://x" }, 'allowed target "http://x"'],
    [{ own: [{ port: 0 }] }, "got 0"],
    [{ own: 7999 }, "own must be a list of { address, port }, got 7999"],
    [{ encryptionKey: 5 }, "encryptionKey must be a string, got number"],
    [{ retryBudget: { ratio: -1 } }, "ratio must be"],
    [{ retryBudget: true }, "retryBudget must be the fields of a retry budget, or false, got true"],
    [{ attemptsAtOnce: 0 }, "attemptsAtOnce must be a whole number from 1 to 1000000, got 0"],
    [{ attemptsPerOrigin: 1.5 }, "attemptsPerOrigin must be a whole number from 1 to 1000000"],
    [{ onFatal: "exit" }, 'onFatal must be a function, got "exit"'],
    [
      { store: "mysql://x" },
      'store must be sqlite:PATH, postgres://..., redis://... or memory:, got "mysql://x"',
    ],
    [{ store: "redis://host?fsync=no" }, "a Redis URL has the options prefix, durability"],
    [
      { store: undefined },
      "store must be sqlite:PATH, postgres://..., redis://... or memory:, got undefined",
    ],
    [{ store: 5 }, "store must be sqlite:PATH, postgres://..., redis://... or memory:, got 5"],
  ])("refuses %o", async (options, message) => {
    const result = await open(options);
    expect(result).toContain(message);
    expect(result).toMatch(/^INVALID_ARGUMENT: /);
  });

  it.each([
    "postgress://me:secret@db/x",
    "Postgres://me:secret@db/x",
    "mysql:me:secret@db",
    "mysql://db/x?password=secret",
  ])("does not show the password of a store that it refuses: %s", async (store) => {
    const result = await open({ store });
    expect(result).toMatch(/^INVALID_ARGUMENT: store must be .*, got ".*db/u);
    expect(result).not.toContain("secret");
  });

  it("refuses options that are not an object", async () => {
    for (const options of [undefined, null, "sqlite:x"]) {
      const opened = createRedrive(options as unknown as RedriveOptions);
      await expect(opened).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
  });

  it("accepts undefined as absent, and an empty encryption key as none", async () => {
    expect(await open({ retentionMs: undefined, encryptionKey: "" })).toBe("accepted");
  });

  it("leaves the store unlocked when it refuses an option", async () => {
    const store = `sqlite:${join(folder, "a.db")}`;
    expect(await open({ store, allowTargets: "http://x" })).toMatch("allowed target");
    expect(await open({ store, own: [{ port: -1 }] })).toMatch("port");
    expect(await open({ store })).toBe("accepted");
  });

  it.each(["latestAt", "renew", "documents"])(
    "closes the store when its %s fails during the start",
    async (part) => {
      let closed = 0;
      const memory = memoryStore();
      const fail = () => Promise.reject(new Error("no disk"));
      const broken = part === "documents" ? { ...memory.documents, list: fail } : fail;
      const close = async () => {
        closed++;
      };
      expect(await open({ store: { ...memory, [part]: broken, close } })).toContain("no disk");
      expect(closed).toBe(1);
    },
  );
});
