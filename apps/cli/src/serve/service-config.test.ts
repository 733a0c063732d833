/** The configuration of a service: what wins over what, and what is refused with its fix. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { serviceConfig, storePath } from "./service-config.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-config-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (value: unknown) => {
  const path = join(folder, "config.json");
  writeFileSync(path, JSON.stringify(value));
  return path;
};

test("flags win over the file, the file over the defaults", () => {
  const config = file({ port: 8080, store: "memory:", retentionMs: 60_000 });
  expect(serviceConfig({ config, port: 9090 })).toEqual({
    host: "127.0.0.1",
    port: 9090,
    store: "memory:",
    retentionMs: 60_000,
  });
});

test("a file is checked whole, and misspelt fields are guessed", () => {
  const config = file({ prot: 1, port: "x", hosts: [1] });
  expect(() => serviceConfig({ config })).toThrow(/did you mean "port"\?[\s\S]*port must be/u);
});

test("the retry budget of all destinations is a share, off, or a whole document", () => {
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
])("a wrong retry budget is refused by name: %j", (document, fix) => {
  const refused = { code: "INVALID_ARGUMENT", message: expect.stringContaining(fix) };
  expect(() => serviceConfig({ config: file(document) })).toThrow(expect.objectContaining(refused));
});

describe("a store", () => {
  test("is a file or memory", () => {
    expect([storePath("sqlite:a/b.db"), storePath("memory:")]).toEqual(["a/b.db", undefined]);
  });

  test.each([
    ["redrive.db", 'did you mean "sqlite:redrive.db"?'],
    ["memory", 'did you mean "memory:"?'],
    ["postgres://localhost/x", "no other stores"],
    ["sqlite:", "must be sqlite:PATH"],
  ])("%s is refused with the fix", (store, fix) => {
    expect(() => serviceConfig({ store })).toThrow(fix);
  });
});
