/**
 * Tests that secrets stay where they belong: another text is sent through every input of a built `redrive
 * serve`, and all of its outputs are searched for each of them (invariant I43).
 */
// needs: build
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { otlpReceiver } from "../http/otlp-receiver.ts";
import { type Call, ServiceProcess } from "./service-process.ts";

const MAIN = fileURLToPath(new URL("../../apps/cli/bin/redrive.mjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "redrive-canary-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The text of an input. */
const canary = (input: string) => `canary-${input}-7f3a9c`;

/** Where else each input may be found. Bodies, URLs and labels are stored as they are. */
const INPUTS = {
  "header-of-a-task": [],
  authorization: [],
  cookie: [],
  "header-of-a-forward": [],
  "query-of-a-target": ["files"],
  "path-of-a-target": ["answers", "files"],
  "query-of-a-callback": ["files"],
  "query-of-a-dead-letter-url": ["files"],
  body: ["files"],
  "large-body": ["files"],
  "response-body": ["files"],
  "response-cookie": [],
  "response-header": [],
  label: ["answers", "events", "files"],
  "wrong-key": [],
  "query-of-the-api": [],
  "bad-header": [],
  "bad-json": [],
  "mistyped-secret": [],
  "malformed-secret": [],
} as const;
type Input = keyof typeof INPUTS;

const apiKey = `rdv_canary_${randomBytes(32).toString("base64url")}`;
const encryptionKey = randomBytes(32);
const signingSecret = randomBytes(32);

/** Everything that came out of the service, by kind. */
const outputs = new Map<string, string[]>();
function record(kind: string, text: string): void {
  outputs.set(kind, [...(outputs.get(kind) ?? []), text]);
}

function foundIn(...texts: readonly string[]): readonly string[] {
  const has = (all: readonly string[]) =>
    all.some((one) => texts.some((text) => one.includes(text)));
  const found = [...outputs].filter(([, all]) => has(all)).map(([kind]) => kind);
  return found.toSorted();
}

/** Refuses everything, and sends back what it got. */
const target = createServer(async (request, response) => {
  request.resume();
  await once(request, "end");
  const { authorization, cookie, "x-own": own } = request.headers;
  response.setHeader("set-cookie", `id=${canary("response-cookie")}`);
  response.setHeader("x-internal", canary("response-header"));
  response.writeHead(400).end(`${canary("response-body")} ${authorization} ${cookie} ${own}`);
});

const taskTo = (origin: string) => ({
  targetUrl: `${origin}/${canary("path-of-a-target")}?token=${canary("query-of-a-target")}`,
  callbackUrl: `${origin}/callback?token=${canary("query-of-a-callback")}`,
  destination: "hooks",
  headers: {
    authorization: `Bearer ${canary("authorization")}`,
    cookie: `id=${canary("cookie")}`,
    "x-own": canary("header-of-a-task"),
  },
  labels: { order: canary("label") },
  body: canary("body"),
  policy: { maxAttempts: 2, initialDelayMs: 1, maxDelayMs: 1, retryableStatusCodes: [400] },
});

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

/** Calls that the service must refuse, and the secrets in them. */
function badCalls(origin: string): readonly Call[] {
  const json = { "content-type": "application/json" };
  const path = "/retry-tasks";
  const targetUrl = `${origin}/`;
  const bad = canary("bad-header");
  const put = (body: object) => ({ method: "PUT", path: "/destinations/bad", body });
  return [
    { path, headers: bearer(canary("wrong-key")), body: { targetUrl } },
    { path, body: { targetUrl, headers: { "x-own": `${bad}\n` } } },
    { path, body: { targetUrl, headers: { "bad name": bad } } },
    { path, headers: json, body: Buffer.from(`{"headers":{"a":"${canary("bad-json")}"`) },
    put({ signingSecret: canary("mistyped-secret") }),
    put({ signingSecrets: [canary("malformed-secret")] }),
    put({ signingSecrets: { a: canary("malformed-secret") } }),
    { path: `${path}?status=${canary("query-of-the-api")}`, method: "GET" },
    { path: `/${canary("query-of-the-api")}?a=${canary("query-of-the-api")}`, method: "GET" },
  ];
}

/**
 * Reads every page and every document of the API, for the given ids: with the key of a reader, who may not
 * see bodies and the queries of URLs, and otherwise with that of the operator.
 */
async function readAll(service: ServiceProcess, ids: Readonly<Record<string, string>>) {
  const openapi = (await service.get("/openapi.json")).json;
  const routes = Object.entries<object>(openapi.paths).filter(([, methods]) => "get" in methods);
  const paths = routes.map(([path]) => path.replace(/\{(\w+)\}/g, (_, name) => ids[name] ?? ""));
  // The events never end, and the body was asked for by its name.
  const skipped = /^\/events|\/body$/;
  for (const path of paths.filter((one) => !skipped.test(one))) {
    const read = await service.call({ method: "GET", path, headers: bearer(newKey) });
    const { status, text } = read.status === 403 ? await service.get(path) : read;
    record("answers", text);
    expect(status, path).toBeLessThan(500);
  }
  const explained = `/retry-tasks/${ids["taskId"]}?include=explain`;
  const headers = bearer(newKey);
  record("answers", (await service.call({ method: "GET", path: explained, headers })).text);
  for (const path of ["/ui/", "/docs"]) record("pages", (await service.get(path)).text);
  record("metrics", (await service.get("/metrics")).text);
}

/** Every byte of every file below. */
function recordFiles(path: string): void {
  if (statSync(path).isFile()) record("files", readFileSync(path, "latin1"));
  else for (const name of readdirSync(path)) recordFiles(join(path, name));
}

let service: ServiceProcess;
let newKey = "";
beforeAll(async () => {
  const collector = await otlpReceiver();
  await once(target.listen(0, "127.0.0.1"), "listening");
  const origin = `http://127.0.0.1:${(target.address() as AddressInfo).port}`;
  service = await ServiceProcess.start({
    main: MAIN,
    address: "127.0.0.1",
    port: 0,
    store: `sqlite:${join(folder, "canary.db")}`,
    apiKey,
    env: {
      REDRIVE_ENCRYPTION_KEY: encryptionKey.toString("base64"),
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_METRICS_EXPORTER: "otlp",
    },
  });
  const document = {
    signingSecrets: [`whsec_${signingSecret.toString("base64")}`],
    deadLetterUrl: `${origin}/dead?token=${canary("query-of-a-dead-letter-url")}`,
  };
  const call = async (one: Call) => {
    const { text, json } = await service.call(one);
    record("answers", text);
    return json;
  };
  // The operator who stores a URL sees it in the answer.
  await service.call({ method: "PUT", path: "/destinations/hooks", body: document });
  const { signingSecrets } = document;
  await call({ method: "PUT", path: "/destinations/signed", body: { signingSecrets } });
  for (const verb of ["pause", "resume"]) await call({ path: `/destinations/signed/${verb}` });
  const reader = { name: "reader", scopes: ["tasks:read"] };
  // A key is shown once, to its creator.
  newKey = (await service.call({ path: "/keys", body: reader })).json.key;
  const { taskId } = await call({ path: "/retry-tasks", body: taskTo(origin) });
  const forwarded = await call({
    path: "/forward",
    headers: { "redrive-target": `${origin}/`, "x-own": canary("header-of-a-forward") },
    body: Buffer.from(canary("large-body").padEnd(100_000, "x")),
  });
  for (const bad of badCalls(origin)) {
    const { status, json } = await service.call(bad);
    expect(status).toBeGreaterThanOrEqual(400);
    record("errors", JSON.stringify(json));
  }
  await service.ended(taskId, 2);
  await service.ended(forwarded.taskId);
  await call({ path: "/redrives", body: { taskIds: [taskId], ratePerSecond: 100 } });
  await readAll(service, { taskId, name: "hooks", policyId: "default" });
  expect(await service.stop()).toBe(0);
  for (const line of service.log) record("log", line);
  record("log", service.errors);
  record("events", service.events.join("\n"));
  recordFiles(folder);
  for (const { text } of collector.requests) record("traces", text);
  await collector.close();
  target.close();
});

afterAll(() => service?.kill());

test.each(Object.entries(INPUTS))("%s is found only in %j", (input, places) => {
  expect(foundIn(canary(input as Input))).toEqual(places);
});

test("the keys and the secret that signs are found nowhere", () => {
  const bytes = (secret: Buffer) => [secret.toString("base64"), secret.toString("latin1")];
  expect(newKey).toMatch(/^rdv_/);
  expect(foundIn(apiKey, newKey)).toEqual([]);
  expect(foundIn(...bytes(encryptionKey), ...bytes(signingSecret))).toEqual([]);
});

test("every kind of output was searched", () => {
  const kinds = ["answers", "errors", "events", "files", "log", "metrics", "pages", "traces"];
  expect([...outputs.keys()].toSorted()).toEqual(kinds);
  expect([...outputs.values()].every((texts) => texts.join("") !== "")).toBe(true);
});
