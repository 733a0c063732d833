/** Service configuration: precedence, and error messages that say how to fix the problem. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { storeName } from "@redrive/service";
import { afterAll, describe, expect, test } from "vitest";
import { isServerStore, serviceConfig, storePath } from "./service-config.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-config-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (value: unknown) => {
  const path = join(folder, "config.json");
  writeFileSync(path, JSON.stringify(value));
  return path;
};

test("flags override the file, and the file overrides the defaults", () => {
  const config = file({ port: 8080, store: "memory:", retentionMs: 60_000 });
  expect(serviceConfig({ config, port: 9090 })).toEqual({
    host: "127.0.0.1",
    port: 9090,
    store: "memory:",
    retentionMs: 60_000,
  });
});

test("all errors of a file are reported, with suggestions for misspelled fields", () => {
  const config = file({ prot: 1, port: "x", hosts: [1] });
  expect(() => serviceConfig({ config })).toThrow(/did you mean "port"\?[\s\S]*port must be/u);
});

test("the retry budget of all destinations is a share, off, or a document", () => {
  const retryBudget = { kind: "TOKENS", maxTokens: 50 };
  expect(serviceConfig({ retryBudget: 0.5 }).retryBudget).toEqual({ ratio: 0.5 });
  expect(serviceConfig({ config: file({ retryBudget }) }).retryBudget).toEqual(retryBudget);
  const config = file({ retryBudget });
  expect(serviceConfig({ config, retryBudget: "off" }).retryBudget).toBe(false);
});

test.each([
  [{ retryBudget: 7 }, "retryBudget must be the fields of a retry budget, or false, got 7"],
  [{ retryBudget: { ratoi: 1 } }, 'did you mean "ratio"'],
  [{ retryBudget: { ratio: 11 } }, "retryBudget.ratio must be"],
])("an invalid retry budget is refused with its field: %j", (document, fix) => {
  const refused = { code: "INVALID_ARGUMENT", message: expect.stringContaining(fix) };
  expect(() => serviceConfig({ config: file(document) })).toThrow(expect.objectContaining(refused));
});

test("the limits on running attempts are flags and fields, and are whole numbers from 1", () => {
  const config = file({ attemptsAtOnce: 50, attemptsPerOrigin: 5 });
  const limits = { attemptsAtOnce: 50, attemptsPerOrigin: 7 };
  expect(serviceConfig({ config, attemptsPerOrigin: 7 })).toMatchObject(limits);
  const wrong = file({ attemptsAtOnce: 0, attemptsPerOrigin: 1.5 });
  expect(() => serviceConfig({ config: wrong })).toThrow(
    /attemptsAtOnce must be a whole number from 1 to 1000000, got 0[\s\S]*attemptsPerOrigin/u,
  );
});

describe("a store", () => {
  test("is a file or in memory", () => {
    expect([storePath("sqlite:a/b.db"), storePath("memory:")]).toEqual(["a/b.db", undefined]);
  });

  test.each([
    "postgres://a:secret@db:5432/x?schema=y",
    "postgresql://a:s%40e@db/x",
    "postgres://a:p@secret@db/x",
    "postgres://db/x?user=a&password=secret",
    "redis://a:secret@db:6379/0",
    "rediss+sentinel://a:secret@db:1,db2:2/main",
  ])("may be on a server, and its password is never shown: %s", (store) => {
    expect(serviceConfig({ store }).store).toBe(store);
    expect([isServerStore(store), storePath(store)]).toEqual([true, undefined]);
    expect(storeName(store)).toMatch(/^[a-z+]+:\/\/db/u);
    expect(storeName(store)).not.toContain("secret");
    expect(storeName("postgres://db/x:y@z")).toBe("postgres://db/x:y@z");
  });

  test("is one store, and the name of a refused list shows no password", () => {
    const urls = ["postgres://a:secret@one/x", "redis+cluster://:secret@two:1,three:2"];
    const read = (value: unknown) => serviceConfig({ config: file(value) });
    expect(storeName(urls.join())).toBe("postgres://one/x,redis+cluster://two:1,three:2");
    expect(() => read({ store: urls })).toThrow("store");
    expect(() => read({ store: "mysql://two" })).toThrow("mysql://two");
  });

  test.each([
    ["redrive.db", 'did you mean "sqlite:redrive.db"?'],
    ["memory", 'did you mean "memory:"?'],
    ["mysql://localhost/x", "must be sqlite:PATH, postgres://..., redis://... or memory:"],
    ["sqlite:", "must be sqlite:PATH"],
  ])("%s is refused with the fix", (store, fix) => {
    expect(() => serviceConfig({ store })).toThrow(fix);
  });
});
