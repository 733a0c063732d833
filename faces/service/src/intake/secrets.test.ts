/** Tests of secrets: what is sealed, what opens it, and which keys a store accepts. */
import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { memoryDocuments } from "../stores/memory/memory-documents.ts";
import { newTask } from "../stores/store.testing.ts";
import { parseEncryptionKeys } from "./encryption-keys.ts";
import { openSecrets } from "./secrets.ts";

const fill = (bytes: Uint8Array) => void bytes.set(randomBytes(bytes.length));
const key = () => randomBytes(32).toString("base64");

const task = newTask({
  headers: { Authorization: "Bearer t0ps3cret ü", "content-type": "text/plain", "x-own": "mine" },
});

it("seals every header that is not known to be harmless, and opens it", async () => {
  const secrets = await openSecrets(memoryDocuments(), fill, key());
  const sealed = secrets.seal(task);
  expect(sealed.headers["content-type"]).toBe("text/plain");
  expect(JSON.stringify(sealed.headers)).not.toMatch(/t0ps3cret|mine/);
  expect(secrets.open(sealed)).toEqual(task);
  expect(secrets.seal(sealed)).toEqual(sealed);
  expect(secrets.seal(task).headers).not.toEqual(sealed.headers);
});

it("opens nothing that was moved to another task, tenant or header, or was changed", async () => {
  const secrets = await openSecrets(memoryDocuments(), fill, key());
  const sealed = secrets.seal(task);
  expect(secrets.open({ ...sealed, taskId: "other" })).toBeNull();
  expect(secrets.open({ ...sealed, tenantId: "other" })).toBeNull();
  const { Authorization = "", "x-own": own = "" } = sealed.headers;
  expect(secrets.open({ ...sealed, headers: { Authorization: own } })).toBeNull();
  const cut = { Authorization: Authorization.slice(0, -4) };
  expect(secrets.open({ ...sealed, headers: cut })).toBeNull();
});

it("without a key seals nothing, and opens nothing that is sealed", async () => {
  const plain = await openSecrets(memoryDocuments(), fill, undefined);
  expect(plain.seal(task)).toBe(task);
  expect(plain.open(task)).toBe(task);
  const sealed = (await openSecrets(memoryDocuments(), fill, key())).seal(task);
  expect(plain.open(sealed)).toBeNull();
});

it("rejects a wrong or missing key, and says what to do", async () => {
  const documents = memoryDocuments();
  await openSecrets(documents, fill, key());
  await expect(openSecrets(documents, fill, key())).rejects.toThrow(
    /not the key of this store.*NEW,OLD/s,
  );
  await expect(openSecrets(documents, fill, undefined)).rejects.toThrow(
    /set REDRIVE_ENCRYPTION_KEY/,
  );
});

it("rotates its key with NEW,OLD: fingerprints stay, and old values open while the old key is given", async () => {
  const documents = memoryDocuments();
  const [old, fresh] = [key(), key()];
  const before = await openSecrets(documents, fill, old);
  const sealed = before.seal(task);
  const both = await openSecrets(documents, fill, `${fresh}, ${old}`);
  expect(both.open(sealed)).toEqual(task);
  expect(both.fingerprint(["payload"])).toBe(before.fingerprint(["payload"]));
  const after = await openSecrets(documents, fill, fresh);
  expect(after.open(sealed)).toBeNull();
  expect(after.open(both.seal(task))).toEqual(task);
  expect(after.fingerprint(["payload"])).toBe(before.fingerprint(["payload"]));
  await expect(openSecrets(documents, fill, old)).rejects.toThrow(/not the key/);
});

it("accepts keys only in Base64 and hexadecimal", () => {
  const bytes = randomBytes(32);
  const [base64] = parseEncryptionKeys(bytes.toString("base64"));
  const [hex] = parseEncryptionKeys(bytes.toString("hex"));
  expect(base64).toEqual(hex);
  for (const wrong of ["short", "x".repeat(64), `${key()},`]) {
    expect(() => parseEncryptionKeys(wrong)).toThrow(/openssl rand -base64 32/);
  }
});
