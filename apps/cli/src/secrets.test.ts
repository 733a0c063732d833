/** Tests that no command prints a secret: every command runs with secrets, and all of its output is searched. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { fakeTerminal } from "./program.testing.ts";
import { program } from "./program.ts";
import { type RunningService, startService } from "./serve/running-service.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-cli-secrets-"));
const target = createServer((request, response) => {
  request.resume();
  response.writeHead(request.url === "/ill" ? 400 : 200).end();
});
let service: RunningService;
let origin = "";

/** A text that is found in no output by chance. */
const canary = (name: string) => `canary-${name}-${randomBytes(6).toString("hex")}`;
const signing = () => `whsec_${randomBytes(32).toString("base64")}`;

const SECRETS = {
  stored: signing(),
  fresh: signing(),
  mistyped: signing(),
  unfinished: signing(),
  header: canary("header"),
  badHeader: canary("bad-header"),
  password: canary("password"),
  apiKey: `rdv_canary_${randomBytes(32).toString("base64url")}`,
  encryptionKey: randomBytes(32).toString("base64"),
} as const;
const file = (name: string) => join(folder, name);
const store = `sqlite:${file("store.db")}`;

beforeAll(async () => {
  await once(target.listen(0, "127.0.0.1"), "listening");
  origin = `http://127.0.0.1:${(target.address() as AddressInfo).port}`;
  vi.stubEnv("REDRIVE_API_KEY", SECRETS.apiKey);
  vi.stubEnv("REDRIVE_ENCRYPTION_KEY", SECRETS.encryptionKey);
  const config = { host: "127.0.0.1", port: 0, store };
  const { apiKey, encryptionKey } = SECRETS;
  service = await startService(config, { apiKey, encryptionKey });
  await service.redrive.configure("hooks", { signingSecrets: [SECRETS.stored] });
  const headers = { authorization: SECRETS.header };
  await service.redrive.enqueue({ targetUrl: `${origin}/ill`, destination: "hooks", headers });
  const line = { task: { taskId: "x", headers: { authorization: SECRETS.header } } };
  const text = JSON.stringify({ signingSecrets: [SECRETS.fresh], disableOnGone: true }, null, 1);
  const files: Readonly<Record<string, string>> = {
    "signed.json": text,
    "mistyped.json": JSON.stringify({ signingSecret: SECRETS.mistyped, secrets: ["x"] }),
    // The parser of Node quotes the text around a mistake.
    "unfinished.json": `{"signingSecrets":["${SECRETS.unfinished}]}`,
    "list.json": JSON.stringify([SECRETS.unfinished]),
    "text.json": JSON.stringify(SECRETS.unfinished),
    "cut.json": text.slice(0, text.indexOf(SECRETS.fresh) + 20),
    "lines.ndjson": JSON.stringify(line),
    "cut.ndjson": JSON.stringify(line).slice(0, -4),
    "wrong.ndjson": JSON.stringify({ task: { taskId: "x", headers: [SECRETS.header] } }),
    "config.json": `{"alerts":{"url":"http://x/${SECRETS.password}",}}`,
  };
  for (const [name, content] of Object.entries(files)) writeFileSync(file(name), content);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await service.stop();
  target.close();
  rmSync(folder, { recursive: true });
});

/** Runs `redrive`; also returns what commander itself writes. */
async function outputOf(args: readonly string[]): Promise<string> {
  const { terminal, written } = fakeTerminal(args);
  let own = "";
  const record = (text: string | Uint8Array) => {
    own += String(text);
    return true;
  };
  const exit = vi.spyOn(process, "exit").mockImplementation((code) => {
    throw new Error(`exit ${code}`);
  });
  const writes = [process.stdout, process.stderr].map((stream) =>
    vi.spyOn(stream, "write").mockImplementation(record),
  );
  try {
    await program(terminal).parseAsync([...args], { from: "user" });
  } catch (error) {
    own += (error as Error).stack;
  } finally {
    for (const spy of [exit, ...writes]) spy.mockRestore();
  }
  return written.out + written.err + own;
}

/** Where nothing listens. */
const DEAD = `user:${SECRETS.password}@127.0.0.1:1/x`;
const STORES = [`postgres://${DEAD}`, `redis://${DEAD}`, `nonsense://${DEAD}`];
const onStores = (line: string) => STORES.map((one) => `${line} --store ${one}`);

/** The command lines of every command that gets a secret, or reads one from a service. */
const LINES: Readonly<Record<string, readonly string[]>> = {
  "destinations set": [
    `hooks ${file("signed.json")} --dry-run`,
    `hooks ${file("signed.json")} --dry-run --json`,
    `fresh ${file("mistyped.json")} --dry-run`,
    `fresh ${file("mistyped.json")}`,
    `fresh ${file("unfinished.json")}`,
    `fresh ${file("cut.json")}`,
    `fresh ${file("list.json")}`,
    `fresh ${file("text.json")}`,
    `fresh ${file("signed.json")}`,
    `fresh ${file("signed.json")} --json`,
    `hooks ${file("signed.json")} --json`,
  ],
  "destinations edit": ["hooks"],
  "destinations ls": ["", "--json"],
  "destinations get": ["hooks", "hooks --json"],
  "destinations pause": ["hooks --json"],
  "destinations resume": ["hooks --json"],
  "destinations close-breaker": ["hooks --json"],
  "destinations probe": ["hooks --json"],
  "destinations enable": ["hooks http://127.0.0.1:1/ --json"],
  send: [
    "ORIGIN/well --wait 5s -H authorization:SECRET --json",
    "ORIGIN/well --destination hooks -H authorization:SECRET --wait 5s",
    "ORIGIN/well -H BAD",
    "ORIGIN/well -H a\u0001b=BAD",
    "http://user:PASSWORD@127.0.0.1:1/",
    "ORIGIN/well --url http://user:PASSWORD@127.0.0.1:1/",
    'ORIGIN/well --body-json {"a":x"SECRET"}',
  ],
  bridge: [
    `--from redis://${DEAD} --queue q --to ORIGIN -H authorization:SECRET`,
    `--from amqp://${DEAD} --queue q --to ORIGIN -H BAD`,
    `--from nonsense://${DEAD} --queue q --to ORIGIN`,
  ],
  "tasks ls": ["", "--json"],
  "tasks get": ["", "--json"],
  "tasks retry": [""],
  "tasks cancel": [""],
  "tasks tail": ["--for 1ms --json"],
  "tasks export": ["", "--status exhausted"],
  "tasks import": [
    `${file("lines.ndjson")} --yes`,
    `${file("cut.ndjson")} --yes`,
    `${file("wrong.ndjson")} --yes`,
  ],
  explain: ["", "--json"],
  "dlq ls": ["", "--json", "--group"],
  "dlq redrive": ["--yes --rate 1000 --json"],
  "dlq redrives": ["--json"],
  "dlq pause": ["none"],
  "dlq resume": ["none"],
  "dlq cancel": ["none"],
  "dlq purge": ["--all --yes --json"],
  "policies ls": ["--json"],
  "policies get": ["default --json"],
  "policies apply": [file("unfinished.json"), file("mistyped.json")],
  export: onStores(""),
  import: onStores(`--in ${file("cut.ndjson")}`),
  backup: [`${file("store.db")} --to ${file("copy.db")}`],
  restore: [`${file("copy.db")} ${`--store ${STORES[0]}`}`],
  doctor: [`--store ${store}`, `--store ${store} --json`, ...onStores("--json")],
  serve: [`--config ${file("config.json")}`, ...onStores("--port 0")],
  "keys ls": [`--store ${store}`, `--store ${store} --json`],
  "keys revoke": [`none --store ${store}`],
};

/** Commands that neither get a secret nor call a service. `keys add` prints the key that it creates, once. */
const WITHOUT_SECRETS =
  /^(?:dev|sim .*|schedule|advise|completion|keys add|policies (?:lint|catalog|import|export))$/u;

const callsService = (name: string) =>
  /^(?:send|bridge|tasks|explain|dlq|destinations|policies)\b/u.test(name);

function argsOf(name: string, line: string): readonly string[] {
  const text = line
    .replace("ORIGIN", origin)
    .replace("SECRET", SECRETS.header)
    .replace("BAD", SECRETS.badHeader)
    .replace("PASSWORD", SECRETS.password);
  const url = callsService(name) && !text.includes("--url") ? ["--url", service.url] : [];
  return [...`${name} ${text}`.split(" ").filter((arg) => arg !== ""), ...url];
}

test.each(Object.entries(LINES))("`%s` prints no secret", async (name, lines) => {
  vi.stubEnv("EDITOR", `cp ${file("signed.json")}`);
  for (const line of lines) {
    const output = await outputOf(argsOf(name, line));
    expect(output, line).not.toBe("");
    for (const [kind, secret] of Object.entries(SECRETS)) {
      // A part of a secret is one, too.
      const part = secret.slice(secret.startsWith("whsec_") ? 6 : 0).slice(0, 8);
      expect(output.includes(part) && `${kind} in ${line}: ${output}`).toBe(false);
    }
  }
});

test("every command is searched, or has no secret", () => {
  const leaves = ({ commands }: Command, path: string): readonly string[] =>
    commands.length === 0
      ? [path.trim()]
      : commands.flatMap((child) => leaves(child, `${path} ${child.name()}`));
  const names = leaves(program(fakeTerminal().terminal), "");
  const searched = names.filter((name) => !WITHOUT_SECRETS.test(name));
  expect(searched.toSorted()).toEqual(Object.keys(LINES).toSorted());
});

test("a new secret is shown as a change, and a changed one as another", async () => {
  const { document } = (await service.redrive.healthOf("hooks")) ?? {};
  const [stored] = (document as { signingSecrets: readonly string[] }).signingSecrets;
  writeFileSync(file("both.json"), JSON.stringify({ signingSecrets: [signing(), stored] }));
  const line = `hooks ${file("both.json")} --dry-run`;
  const output = await outputOf(argsOf("destinations set", line));
  expect(output).toContain(`["whsec_*** (new)","${stored}"]`);
});
