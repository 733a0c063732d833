/** Tests of keys: their format, their storage, and how soon a change of the file takes effect. */
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { virtualClock } from "@redrive/core";
import { afterAll, describe, expect, it } from "vitest";
import { createKey, fileKeyStore, memoryKeyStore, recordOfKey, verifyKey } from "./access.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-keys-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let drawn = 0;
const fill = (bytes: Uint8Array) => {
  bytes.set(bytes.map(() => (drawn = (drawn * 31 + 17) % 251)));
};
const wanted = { tenantId: "acme", scopes: ["tasks:read"], now: 1000 } as const;

describe("a key", () => {
  it("is rdv_<id>_<secret>, and only a digest of the secret is stored", () => {
    const { key, record } = createKey(fill, wanted);
    expect(key).toMatch(/^rdv_[0-9a-f]{12}_[A-Za-z0-9_-]{43}$/);
    expect(JSON.stringify(record)).not.toContain(key.split("_").at(-1));
    expect(record).toMatchObject({ tenantId: "acme", scopes: ["tasks:read"], expiresAt: null });
  });

  it("is accepted with its secret until it expires", () => {
    const { key, record } = createKey(fill, { ...wanted, expiresAt: 2000 });
    const store = memoryKeyStore([record]);
    expect(verifyKey(store, key, 1999)).toBe(record);
    expect(verifyKey(store, key, 2000)).toBeUndefined();
    expect(verifyKey(store, `${key.slice(0, -1)}~`, 1000)).toBeUndefined();
    expect(verifyKey(store, key.replace(record.keyId, "other"), 1000)).toBeUndefined();
    for (const text of ["", "rdv_", "x".repeat(10_000)]) {
      expect(verifyKey(store, text, 1000)).toBeUndefined();
    }
  });

  it("may be created elsewhere if it is well-formed", () => {
    const { key, record } = createKey(fill, wanted);
    expect(recordOfKey(key, wanted)).toEqual(record);
    expect(() => recordOfKey("secret", wanted)).toThrow(/redrive keys add/);
  });
});

describe("a key store in a file", () => {
  it("is private, is replaced atomically, and another process sees a change within a second", async () => {
    const path = join(folder, "keys.json");
    const clock = virtualClock();
    const served = fileKeyStore(path, clock);
    const edited = fileKeyStore(path, clock);
    const { key, record } = createKey(fill, wanted);
    edited.add(record);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(path, "utf8")).not.toContain(key.split("_").at(-1));
    await clock.advance(1000);
    expect(verifyKey(served, key, 0)?.keyId).toBe(record.keyId);
    expect(edited.revoke(record.keyId)).toBe(true);
    expect(edited.revoke(record.keyId)).toBe(false);
    await clock.advance(1000);
    expect(verifyKey(served, key, 0)).toBeUndefined();
  });

  it("keeps the known keys if the file becomes unreadable, warns once, and never overwrites the file", async () => {
    const path = join(folder, "unreadable.json");
    const clock = virtualClock();
    const warnings: string[] = [];
    const store = fileKeyStore(path, clock, (error) => warnings.push(String(error)));
    const { key, record } = createKey(fill, wanted);
    store.add(record);
    const good = readFileSync(path);
    writeFileSync(path, "{ unreadable");
    for (let n = 0; n < 3; n++) {
      await clock.advance(1000);
      expect(verifyKey(store, key, 0)?.keyId).toBe(record.keyId);
      expect(store.list()).toEqual([record]);
    }
    expect(warnings).toEqual([expect.stringContaining("unreadable.json is invalid")]);
    expect(() => store.revoke(record.keyId)).toThrow(/cannot be read as JSON/);
    expect(readFileSync(path, "utf8")).toBe("{ unreadable");
    writeFileSync(path, good.toString().replace(record.keyId, "another"));
    await clock.advance(1000);
    expect(verifyKey(store, key, 0)).toBeUndefined();
  });

  it("rejects an id that exists, and a file that is not a key file", () => {
    const path = join(folder, "other.json");
    const store = fileKeyStore(path, virtualClock());
    const { record } = createKey(fill, wanted);
    store.add(record);
    expect(() => store.add(record)).toThrow(/already/);
    expect(store.list()).toEqual([record]);
    writeFileSync(path, "[]");
    expect(() => fileKeyStore(path, virtualClock())).toThrow(/must hold/);
  });

  it.each([
    ["no JSON", "{", /cannot be read as JSON/],
    ["no list", "[]", /must hold { "keys": \[...\] }/],
    [
      "a key without its digest",
      '{"keys":[{"keyId":"a","tenantId":"t"}]}',
      /keys\[0\] is not a key record/,
    ],
  ])("that contains %s is rejected with the file name", (_what, text, words) => {
    const path = join(folder, "edited.json");
    writeFileSync(path, text);
    const open = () => fileKeyStore(path, virtualClock());
    expect(open).toThrow(words);
    expect(open).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  });
});
