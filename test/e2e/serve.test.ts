/** The built `redrive serve` in its own process: started, killed, restarted, stopped. */
// needs: build
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { otlpReceiver } from "../http/otlp-receiver.ts";

const MAIN = fileURLToPath(new URL("../../apps/cli/bin/redrive.mjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "redrive-serve-"));
afterAll(() => rmSync(folder, { recursive: true }));
const { REDRIVE_URL: _, REDRIVE_API_KEY: __, REDRIVE_STORE: ___, ...plain } = process.env;

function start(args: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd: folder,
    env: { ...plain, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

async function redrive(line: string, env: NodeJS.ProcessEnv = {}) {
  const child = start(line.split(" "), env);
  const written = { out: "", err: "" };
  child.stdout?.setEncoding("utf8").on("data", (text) => {
    written.out += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text) => {
    written.err += text;
  });
  const [code] = await once(child, "close");
  return { ...written, code: code as number };
}

interface Served {
  readonly child: ChildProcess;
  readonly url: string;
  /** Every line of its log, parsed. */
  readonly log: readonly { readonly msg: string }[];
  readonly ended: Promise<unknown[]>;
}

async function serve(args: string, env: NodeJS.ProcessEnv = {}): Promise<Served> {
  const child = start(["serve", ...args.split(" ")], env);
  const ended = once(child, "close");
  const log: { msg: string; url?: string }[] = [];
  const lines = createInterface({ input: child.stdout! });
  const url = await new Promise<string>((resolve, reject) => {
    lines.on("line", (line) => {
      const entry = JSON.parse(line);
      log.push(entry);
      if (entry.msg.startsWith("Redrive is ready at ")) resolve(entry.url);
    });
    lines.on("close", () => reject(new Error("the process ended before it was ready")));
  });
  return { child, url, log, ended };
}

/** Starts a target that fails this many times and then succeeds. */
async function openTarget(failures: number) {
  const requests = { count: 0 };
  const server = createServer((request, response) => {
    request.resume();
    requests.count += 1;
    response.writeHead(requests.count <= failures ? 503 : 200).end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/orders`, requests };
}

test("a task succeeds after two failures, and a waiting task survives a killed service", async () => {
  const store = `sqlite:${join(folder, "service.db")}`;
  const target = await openTarget(2);
  const first = await serve(`--port 0 --store ${store}`);
  const at = (url: string) => ({ REDRIVE_URL: url, REDRIVE_STORE: store });

  const sent = await redrive(
    `send ${target.url} --body-json {"order":42} --policy default --wait 20s`,
    at(first.url),
  );
  expect(sent).toMatchObject({ code: 0, err: "" });
  const taskId = sent.out.split(" ")[0];
  const { out } = await redrive(`tasks get ${taskId}`, at(first.url));
  expect(out).toMatch(/SUCCEEDED {2}3 attempts\n/u);
  expect(out).toMatch(/\n +1 .* 503\n +2 .* policy.* 503\n +3 .* policy.*success +200\n/u);
  expect(target.requests.count).toBe(3);

  const waiting = (await redrive(`send ${target.url} --in 1h`, at(first.url))).out.split(" ")[0];
  first.child.kill("SIGKILL");
  await first.ended;

  const second = await serve(`--port 0 --store ${store}`);
  const listed = JSON.parse((await redrive("tasks ls --json", at(second.url))).out);
  const statuses = listed.tasks.map((task: { taskId: string; status: string }) => [
    task.taskId,
    task.status,
  ]);
  expect(statuses).toEqual([
    [waiting, "PENDING"],
    [taskId, "SUCCEEDED"],
  ]);
  second.child.kill("SIGTERM");
  expect(await second.ended).toEqual([0, null]);
  expect(second.log.at(-1)?.msg).toBe("stopped");
});

test("the last spans are exported before the service exits", async () => {
  const collector = await otlpReceiver();
  onTestFinished(() => collector.close());
  const { url: targetUrl } = await openTarget(1);
  const { child, url, ended } = await serve("--port 0 --store memory:", {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_SERVICE_NAME: "shop",
  });
  const policy = { maxAttempts: 2, initialDelayMs: 1, maxDelayMs: 1 };
  const response = await fetch(`${url}/retry-tasks`, {
    method: "POST",
    headers: { "content-type": "application/json", prefer: "wait=20" },
    body: JSON.stringify({ targetUrl, policy }),
  });
  const { taskId, status } = (await response.json()) as { taskId: string; status: string };
  expect(status).toBe("SUCCEEDED");
  expect(collector.spans).toEqual([]);
  child.kill("SIGTERM");
  await ended;
  const attempts = collector.spans.map(({ attributes }) => attributes["redrive.attempt"]);
  expect(attempts.toSorted()).toEqual([1, 2]);
  const traces = new Set(collector.spans.map(({ traceId }) => traceId));
  expect(traces).toEqual(new Set([taskId.replaceAll("-", "")]));
  expect(collector.resource["service.name"]).toBe("shop");
});

test("no task may call the service itself", async () => {
  const { url } = await serve("--port 0 --store memory:");
  const { err, code } = await redrive(`send ${url}/retry-tasks`, { REDRIVE_URL: url });
  expect(err).toContain("is not allowed");
  expect(code).toBe(1);
});

test("with a key, every call needs it, and the service may listen on any address", async () => {
  const store = `sqlite:${join(folder, "keyed.db")}`;
  const REDRIVE_API_KEY = (await redrive(`keys add --store ${store}`)).out.trim();
  const served = await serve(`--host 0.0.0.0 --port 0 --store ${store}`);
  const REDRIVE_URL = served.url.replace("0.0.0.0", "127.0.0.1");
  expect(await redrive("tasks ls", { REDRIVE_URL })).toMatchObject({
    code: 1,
    err: expect.stringContaining("API key"),
  });
  expect(await redrive("tasks ls", { REDRIVE_URL, REDRIVE_API_KEY })).toMatchObject({ code: 0 });
  const denied = await redrive("send http://127.0.0.1:9/x", { REDRIVE_URL, REDRIVE_API_KEY });
  expect(denied.err).toContain("REDRIVE_ALLOW_TARGETS");
});

const config = join(folder, "config.json");
writeFileSync(config, '{"prot":7337}');

test.each<[string, NodeJS.ProcessEnv, string]>([
  ["--host 0.0.0.0", {}, "create one with `redrive keys add`, or set REDRIVE_API_KEY"],
  ["--store redrive.db", {}, 'did you mean "sqlite:redrive.db"?'],
  [`--config ${config}`, {}, 'did you mean "port"?'],
  ["--store memory:", { REDRIVE_PORT: "http" }, "Must be a port from 0 to 65535."],
  ["--store memory:", { REDRIVE_API_KEY: "secret" }, "create one with `redrive keys add`"],
  ["--store memory: --port 0", { REDRIVE_ENCRYPTION_KEY: "short" }, "openssl rand -base64 32"],
  ["--retry-budget 11", {}, "'--retry-budget <share>' argument '11' is invalid. Must be off or"],
  [
    "",
    { REDRIVE_RETRY_BUDGET: "1e3" },
    'retryBudget.ratio must be a number from 0 to 10, got "1e3"',
  ],
  ["", { REDRIVE_RETRY_BUDGET: "-1" }, "from env 'REDRIVE_RETRY_BUDGET' is invalid"],
  ["--insecure-no-auth --allow-targets 10.0.0.0/8", {}, "must not be used together"],
  ["--store memory: --port 0", { REDRIVE_ALLOW_TARGETS: "10.0.0.0/99" }, "a block like 10.0.0.0/8"],
])("`redrive serve %s` with %o exits with 2 and the fix", async (args, env, fix) => {
  const { err, code } = await redrive(`serve ${args}`, env);
  expect(err).toContain(fix);
  expect(code).toBe(2);
});

test.each([
  [`sqlite:${folder}`, "name a file, as in sqlite:FOLDER/redrive.db", 2],
  [`sqlite:${config}/x.db`, "name a file in a folder", 2],
  [`sqlite:${config}`, "is not a database: give Redrive a separate file", 1],
])("an invalid store %s is refused with the fix", async (store, fix, expected) => {
  const { err, code } = await redrive(`serve --port 0 --store ${store}`);
  expect(err).toContain(fix);
  expect(code).toBe(expected);
});

test("keys can be created before the first start, and doctor checks the folder of the store", async () => {
  const store = `sqlite:${join(folder, "later", "deep", "redrive.db")}`;
  expect(await redrive(`keys add --store ${store}`)).toMatchObject({ code: 0 });
  const { out, code } = await redrive(`doctor --json --port 0 --store sqlite:${config}/x.db`);
  expect(out).toContain("is not a folder");
  expect(code).toBe(1);
});

test("an address without keys needs its own flag and logs a warning", async () => {
  const served = await serve("--host 0.0.0.0 --port 0 --store memory: --insecure-no-auth");
  expect(served.log.map(({ msg }) => msg).join("\n")).toContain("ANYONE");
  const REDRIVE_URL = served.url.replace("0.0.0.0", "127.0.0.1");
  const { err } = await redrive("send http://127.0.0.1:7999/x", { REDRIVE_URL });
  expect(err).toContain("is not allowed");
});

test("headers are encrypted with a key, and the next start requires it", async () => {
  const store = `sqlite:${join(folder, "sealed.db")}`;
  const REDRIVE_ENCRYPTION_KEY = "a".repeat(64);
  const { url, child, ended } = await serve(`--port 0 --store ${store}`, {
    REDRIVE_ENCRYPTION_KEY,
  });
  await redrive("send https://example.com/x --in 1h -H x-token=s3cret", { REDRIVE_URL: url });
  child.kill("SIGKILL");
  await ended;
  const files = readdirSync(folder).filter((name) => name.startsWith("sealed.db"));
  for (const name of files) {
    expect(readFileSync(join(folder, name), "latin1")).not.toContain("s3cret");
  }
  const without = await redrive(`serve --port 0 --store ${store}`);
  expect(without).toMatchObject({
    code: 2,
    err: expect.stringContaining("REDRIVE_ENCRYPTION_KEY"),
  });
});

test("the service never switches to another port", async () => {
  const { url } = await serve("--port 0 --store memory:");
  const { err, code } = await redrive(`serve --store memory: --port ${new URL(url).port}`);
  expect(err).toContain("choose another --port");
  expect(code).toBe(1);
});
