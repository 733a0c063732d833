/** Tests of secrets: what is sealed, what opens it, and which keys a store accepts. */
import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { memoryDocuments } from "../stores/memory/memory-documents.ts";
import { newTask } from "../stores/store.testing.ts";
import { openSecrets, parseEncryptionKeys } from "./secrets.ts";

const fill = (bytes: Uint8Array) => void bytes.set(randomBytes(bytes.length));
const key = () => randomBytes(32).toString("base64");

const task = newTask({
  headers: { Authorization: "Bearer t0ps3cret ü", "content-type": "text/plain", "x-own": "mine" },
});

/** Sealed one by one, before headers were sealed together. */
const STORED_AUTHORIZATION =
  "\u00015f7929b7731d.7+vzICUUgwSoJ2QG78hEdQRn7vk0AB+7ocobaNffVhzx2QjVbA==";
const STORED_OWN = "\u00015f7929b7731d.jH4Kfxsj6L3wfB0vABpbVeaXnObwk03dqT4o+NkK2BI=";

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

it("opens no header that was sealed alone and then moved, or whose key is missing", async () => {
  const secrets = await openSecrets(memoryDocuments(), fill, key());
  const alone = secrets.seal({ ...task, headers: { "x-own": "mine" } });
  expect(secrets.openHeaders(alone)).toEqual({ "x-own": "mine" });
  expect(secrets.openHeaders({ ...alone, taskId: "other" })).toBeNull();
  const moved = { "x-other": alone.headers["x-own"] ?? "" };
  expect(secrets.openHeaders({ ...alone, headers: moved })).toBeNull();
  const other = await openSecrets(memoryDocuments(), fill, key());
  expect(other.openHeaders(alone)).toBeNull();
});

it("seals all headers of a task with one encryption, whatever their order when they are read", async () => {
  const secrets = await openSecrets(memoryDocuments(), fill, key());
  const { headers } = secrets.seal(task);
  const values = Object.values(headers).filter(
    (value) => value.length > 1 && value !== "text/plain",
  );
  expect(values).toHaveLength(1);
  const reversed = Object.fromEntries(Object.entries(headers).reverse());
  expect(secrets.openHeaders({ ...task, headers: reversed })).toEqual(task.headers);
  for (const missing of ["Authorization", "x-own"]) {
    const { [missing]: _, ...rest } = headers;
    expect(secrets.openHeaders({ ...task, headers: rest })).toBeNull();
  }
  const renamed = {
    Authorization: headers["Authorization"] ?? "",
    "x-other": headers["x-own"] ?? "",
  };
  expect(secrets.openHeaders({ ...task, headers: renamed })).toBeNull();
});

it("opens no header that was sealed alone and then marked as sealed together", async () => {
  const secrets = await openSecrets(memoryDocuments(), fill, key());
  for (const value of ["Bearer t0ps3cret", '"text"', '["list"]', "7"]) {
    const alone = secrets.seal({ ...task, headers: { "x-own": value } });
    const marked = { "x-own": `\u0001+${alone.headers["x-own"]}` };
    expect(secrets.openHeaders({ ...alone, headers: marked })).toBeNull();
  }
});

it("opens no header that was sealed together and then marked as sealed alone", async () => {
  const secrets = await openSecrets(memoryDocuments(), fill, key());
  const sealed = secrets.seal({ ...task, headers: { "x-one": "1", "x-two": "2" } });
  const marked = { "x-one\nx-two": sealed.headers["x-one"]?.slice(2) ?? "" };
  expect(secrets.openHeaders({ ...sealed, headers: marked })).toBeNull();
});

it("opens headers that were sealed one by one, and seals a header that was added later", async () => {
  const secrets = await openSecrets(memoryDocuments(), fill, key());
  const alone = (name: string, value: string) =>
    secrets.seal({ ...task, headers: { [name]: value } });
  const headers = { ...alone("a", "first").headers, ...alone("b", "second").headers };
  expect(secrets.openHeaders({ ...task, headers })).toEqual({ a: "first", b: "second" });
  const later = secrets.seal({
    ...task,
    headers: { ...secrets.seal(task).headers, c: "third", d: "4th" },
  });
  expect(JSON.stringify(later)).not.toContain("third");
  expect(secrets.openHeaders(later)).toEqual({ ...task.headers, c: "third", d: "4th" });
});

it("opens headers that an earlier version stored", async () => {
  const text = Buffer.alloc(32, 7).toString("base64");
  const secrets = await openSecrets(memoryDocuments(), fill, text);
  const headers = { authorization: STORED_AUTHORIZATION, "x-own": STORED_OWN };
  const stored = { ...task, tenantId: "acme", taskId: "task-1", headers };
  expect(secrets.openHeaders(stored)).toEqual({ authorization: "Bearer ü", "x-own": "mine" });
});

it("never uses a nonce twice", async () => {
  const secrets = await openSecrets(memoryDocuments(), fill, key());
  const nonces = Array.from({ length: 1000 }, () => {
    const sealed = secrets.sealText("text", "context") ?? "";
    return Buffer.from(sealed.slice(sealed.indexOf(".") + 1), "base64").toString("hex", 0, 12);
  });
  expect(new Set(nonces).size).toBe(1000);
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
    /set encryptionKey \(REDRIVE_ENCRYPTION_KEY\)/,
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
