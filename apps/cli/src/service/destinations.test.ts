/** What `destinations set` says about a document, against a real service in this process. */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { redrive } from "../program.testing.ts";
import { type RunningService, startService } from "../serve/running-service.ts";
import { type Destination, stateOf } from "./destinations.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-destinations-"));
let service: RunningService;

beforeAll(async () => {
  const encryptionKey = randomBytes(32).toString("base64");
  const config = { host: "127.0.0.1", port: 0, store: "memory:" };
  service = await startService(config, { encryptionKey });
});
afterAll(async () => {
  await service.stop();
  rmSync(folder, { recursive: true });
});

const run = (line: string) => redrive(`${line} --url ${service.url}`);

async function set(name: string, document: unknown, flags = "") {
  const path = join(folder, `${name}.json`);
  writeFileSync(path, JSON.stringify(document));
  return run(`destinations set ${name} ${path} ${flags}`);
}

/** The document of docs/webhooks.md. */
const WEBHOOKS = {
  policy: "webhook",
  signingSecrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
  disableOnGone: true,
  deadLetterUrl: "https://ops.example.com/dead-letters",
};

test.each([
  ["fields that only the service uses", WEBHOOKS],
  ["only a gate", { retryAfterGate: {} }],
  ["only a description", { description: "the shop" }],
  ["a guard beside the defaults", { concurrency: { max: 3 } }],
])("a document with %s is stored, and lint finds nothing in it", async (name, document) => {
  const destination = name.replaceAll(" ", "-");
  const planned = await set(destination, document, "--dry-run");
  expect([planned.err, planned.code]).toEqual(["", 0]);
  const stored = await set(destination, document);
  expect([stored.err, stored.code]).toEqual(["", 0]);
  expect(stored.out).toContain(`${destination} is changed:`);
});

test("an empty document has the defaults of the service, in which lint finds nothing", async () => {
  await set("emptied", { concurrency: { max: 3 } });
  const { out, err, code } = await set("emptied", {});
  expect([out, err, code]).toEqual([expect.stringContaining("is changed:"), "", 0]);
});

test("guards that the document turns off are noted", async () => {
  const { err, code } = await set("unguarded", { retryBudget: false });
  expect([err, code]).toEqual([expect.stringContaining("no-budget"), 0]);
});

test("a document that the service refuses changes nothing", async () => {
  const refused = await set("refused", { signingSecrets: ["short"], breaker: {} });
  expect([refused.err, refused.code]).toEqual([expect.stringContaining("signing secret"), 2]);
  expect((await run("destinations get refused")).err).toContain("there is no destination");
});

test.each([
  ["a malformed signing secret", { signingSecrets: ["short"] }, "signing secret"],
  ["a dead-letter URL that is none", { deadLetterUrl: "ops" }, "deadLetterUrl"],
  ["a hedge", { hedge: {} }, "hedge works only in the library"],
  ["a guard with a bad value", { concurrency: { max: -1 } }, "concurrency.max"],
])("a dry run refuses %s as the service does", async (_, document, problem) => {
  const planned = await set("planned", document, "--dry-run");
  expect([planned.err, planned.code]).toEqual([expect.stringContaining(problem), 2]);
  const refused = await set("planned", document);
  expect([refused.err, refused.code]).toEqual([expect.stringContaining(problem), 2]);
});

test("a dry run notes fields that only a newer service may know, and checks the others", async () => {
  const newer = { retryBudget: false, breaker: { shape: "round" }, color: "red" };
  const planned = await set("newer", newer, "--dry-run");
  expect([planned.out, planned.code]).toEqual([expect.stringContaining("newer would change:"), 0]);
  expect(planned.err).toContain('unknown field "breaker.shape"');
  expect(planned.err).toContain('unknown field "color"');
  expect(planned.err).toContain("no-budget");
  const refused = await set("newer", { ...newer, signingSecrets: ["short"] }, "--dry-run");
  expect([refused.err, refused.code]).toEqual([expect.stringContaining("signing secret"), 2]);
});

test("a dry run accepts the placeholder of a stored secret", async () => {
  await set("signed", WEBHOOKS);
  const { out } = await run("destinations get signed --json");
  const { document } = JSON.parse(out) as { document: { signingSecrets: string[] } };
  const edited = { ...document, disableOnGone: false };
  expect(document.signingSecrets[0]).toContain("***");
  const planned = await set("signed", edited, "--dry-run");
  expect([planned.err, planned.code]).toEqual(["", 0]);
});

// Tests of the one word for a destination: what holds its tasks, and otherwise whether it fails.

const NOW = 100_000;

function destination(fields: Partial<Destination>): Destination {
  const well = {
    pausedAt: null,
    breakerState: "CLOSED",
    gateUntil: 0,
    rateUntil: 0,
    retryBudget: "open",
    recent: { attempts: 4, failed: 1, failing: false },
  };
  return { ...well, ...fields } as Destination;
}

const failing = { attempts: 8, failed: 8, failing: true };

test.each<[string, Partial<Destination>]>([
  ["ok", {}],
  ["failing (8 of 8)", { recent: failing }],
  ["paused", { pausedAt: 1, recent: failing }],
  ["breaker open", { breakerState: "OPEN", recent: failing }],
  ["rate limited", { rateUntil: NOW + 1 }],
  ["no retries left", { retryBudget: "empty" }],
])("is %s", (text, fields) => {
  expect(stateOf(destination(fields), NOW).text).toBe(text);
});
