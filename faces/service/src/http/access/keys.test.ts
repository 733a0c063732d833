/** Keys: how they look, how they are kept, and how soon a change of the file is seen. */
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { virtualClock } from "@redrive/core";
import { afterAll, describe, expect, it } from "vitest";
import { createKey, fileKeyStore, memoryKeyStore, recordOfKey, verifyKey } from "./keys.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-keys-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let drawn = 0;
const fill = (bytes: Uint8Array) => {
  bytes.set(bytes.map(() => (drawn = (drawn * 31 + 17) % 251)));
};
const wanted = { tenantId: "acme", scopes: ["tasks:read"], now: 1000 } as const;

describe("a key", () => {
  it("is rdv_<id>_<secret>, and only a digest of the secret is kept", () => {
    const { key, record } = createKey(fill, wanted);
    expect(key).toMatch(/^rdv_[0-9a-f]{12}_[A-Za-z0-9_-]{43}$/);
    expect(JSON.stringify(record)).not.toContain(key.split("_").at(-1));
    expect(record).toMatchObject({ tenantId: "acme", scopes: ["tasks:read"], expiresAt: null });
  });

  it("is known by its secret, until it ends", () => {
    const { key, record } = createKey(fill, { ...wanted, expiresAt: 2000 });
    const book = memoryKeyStore([record]);
    expect(verifyKey(book, key, 1999)).toBe(record);
    expect(verifyKey(book, key, 2000)).toBeUndefined();
    expect(verifyKey(book, `${key.slice(0, -1)}~`, 1000)).toBeUndefined();
    expect(verifyKey(book, key.replace(record.keyId, "other"), 1000)).toBeUndefined();
    for (const text of ["", "rdv_", "x".repeat(10_000)]) {
      expect(verifyKey(book, text, 1000)).toBeUndefined();
    }
  });

  it("may be made elsewhere, if it is one", () => {
    const { key, record } = createKey(fill, wanted);
    expect(recordOfKey(key, wanted)).toEqual(record);
    expect(() => recordOfKey("secret", wanted)).toThrow(/redrive keys add/);
  });
});

describe("a book in a file", () => {
  it("is private, is replaced as a whole, and is seen by another process within a second", async () => {
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

  it("goes on with the keys it knew when the file is spoilt, says so once, and never writes over it", async () => {
    const path = join(folder, "spoilt.json");
    const clock = virtualClock();
    const told: string[] = [];
    const book = fileKeyStore(path, clock, (error) => told.push(String(error)));
    const { key, record } = createKey(fill, wanted);
    book.add(record);
    const good = readFileSync(path);
    writeFileSync(path, "{ spoilt");
    for (let n = 0; n < 3; n++) {
      await clock.advance(1000);
      expect(verifyKey(book, key, 0)?.keyId).toBe(record.keyId);
      expect(book.list()).toEqual([record]);
    }
    expect(told).toEqual([expect.stringContaining("spoilt.json are of no use")]);
    expect(() => book.revoke(record.keyId)).toThrow(/cannot be read as JSON/);
    expect(readFileSync(path, "utf8")).toBe("{ spoilt");
    writeFileSync(path, good.toString().replace(record.keyId, "another"));
    await clock.advance(1000);
    expect(verifyKey(book, key, 0)).toBeUndefined();
  });

  it("refuses an id that is taken, and a file that is no book", () => {
    const path = join(folder, "other.json");
    const book = fileKeyStore(path, virtualClock());
    const { record } = createKey(fill, wanted);
    book.add(record);
    expect(() => book.add(record)).toThrow(/already/);
    expect(book.list()).toEqual([record]);
    writeFileSync(path, "[]");
    expect(() => fileKeyStore(path, virtualClock())).toThrow(/must hold/);
  });

  it.each([
    ["no JSON", "{", /cannot be read as JSON/],
    ["no list", "[]", /must hold { "keys": \[...\] }/],
    ["a key without its digest", '{"keys":[{"keyId":"a","tenantId":"t"}]}', /keys\[0\] is no key/],
  ])("that holds %s is refused by its name", (_what, text, words) => {
    const path = join(folder, "edited.json");
    writeFileSync(path, text);
    const open = () => fileKeyStore(path, virtualClock());
    expect(open).toThrow(words);
    expect(open).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  });
});
