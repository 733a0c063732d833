/** The commands that call a service, against a real service in this process. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { redrive } from "../program.testing.ts";
import { type RunningService, startService } from "../serve/running-service.ts";
import { serviceUrl } from "./service-client.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-commands-"));
const target = createServer((request, response) => {
  response.writeHead(request.url === "/well" ? 200 : 400).end();
});
let service: RunningService;
let targetUrl: string;

beforeAll(async () => {
  service = await startService({ host: "127.0.0.1", port: 0, store: "memory:" });
  await new Promise<void>((resolve) => target.listen(0, "127.0.0.1", resolve));
  targetUrl = `http://127.0.0.1:${(target.address() as AddressInfo).port}`;
});
afterAll(async () => {
  await service.stop();
  target.closeAllConnections();
  target.close();
  rmSync(folder, { recursive: true });
});

const run = (line: string) => redrive(`${line} --url ${service.url}`);

async function send(path: string): Promise<string> {
  const { out } = await run(`send ${targetUrl}${path} --policy default --wait 5s`);
  return out.split(" ")[0] ?? "";
}

describe("send and tasks", () => {
  test("send creates a task and waits for it, and tasks get shows its attempts", async () => {
    const { out, code } = await run(`send ${targetUrl}/well --body-json {"a":1} --key k --wait 5s`);
    expect([out, code]).toEqual([expect.stringMatching(/^\S+ {2}SUCCEEDED, attempt 1\n$/u), 0]);
    const repeated = await run(`send ${targetUrl}/well --body-json {"a":1} --key k --json`);
    expect(JSON.parse(repeated.out)).toMatchObject({ replayed: true, status: "SUCCEEDED" });
    const taskId = out.split(" ")[0];
    expect((await run(`tasks get ${taskId}`)).out).toMatch(/SUCCEEDED {2}1 attempt\n/u);
    const listed = JSON.parse((await run("tasks ls --status succeeded --json")).out);
    expect(listed.tasks[0].taskId).toBe(taskId);
  });

  test("send --destination selects the guards and the policy of that destination", async () => {
    await service.redrive.configure("s7", { policy: "payment" });
    const line = `send ${targetUrl}/well --destination s7 --key k7 --in 1h --json`;
    const { taskId } = JSON.parse((await run(line)).out);
    const task = await service.redrive.get(taskId);
    expect(task).toMatchObject({ destination: "s7", policyId: "payment" });
    await service.redrive.cancel(taskId);
    const { err, code } = await run(`send ${targetUrl}/well --destination \u0001`);
    expect([err, code]).toEqual([expect.stringContaining("--destination"), 2]);
  });

  test("a task that fails permanently exits with 1, and says why and what to do next", async () => {
    const { out, code } = await run(`send ${targetUrl}/ill --wait 5s`);
    expect(out).toMatch(
      /^(\S+) {2}EXHAUSTED, attempt 1: 400, not-retryable \(redrive explain \1\)\n$/u,
    );
    expect(code).toBe(1);
  });

  test("a waiting task is canceled once, and tail shows it", async () => {
    const { out } = await run(`send ${targetUrl}/well --in 1h`);
    const taskId = out.split(" ")[0];
    expect((await run(`tasks cancel ${taskId}`)).out).toBe(`${taskId} is canceled.\n`);
    expect(await run(`tasks retry ${taskId}`)).toMatchObject({ code: 1 });
    const lines = (await run("tasks tail --for 1ms --json")).out.trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line).taskId)).toContain(taskId);
  });

  test.each([
    ["tasks get nothing", 1, 'there is no task "nothing"'],
    ["send http://127.0.0.1:1/x --policy nothing", 1, 'there is no policy "nothing"'],
    ["send http://127.0.0.1:1/x --policy paymnt", 1, 'Did you mean "payment"?'],
    ["send nowhere", 2, "<url>"],
    ["send http://127.0.0.1:1/x --body-json {a", 2, "--body-json must be JSON"],
    ["tasks get 01a1e1", 2, "at least 8 digits"],
    ["tasks get 00000000", 2, 'there is no task whose id starts with "00000000"'],
  ])("`%s` exits with %i and says why", async (line, code, text) => {
    expect(await run(line)).toMatchObject({ code, err: expect.stringContaining(text) });
  });

  test("an id can be shortened to a prefix that no other task has", async () => {
    const taskId = await send("/well");
    const shown = (await run("tasks ls --limit 1")).out.split("\n")[1]?.split(" ")[0] ?? "";
    expect(taskId.startsWith(shown) && shown.length < taskId.length).toBe(true);
    expect((await run(`tasks get ${shown}`)).out).toContain(taskId);
    expect((await run(`explain ${shown}`)).out).toContain("succeeded");
    expect((await run("tasks ls")).out.split("\n").every((line) => line.length <= 80)).toBe(true);
  });

  test("messages name the flag, not the field of the API", async () => {
    const { err, code } = await run(`send ${targetUrl}/well --policy payment`);
    expect([err, code]).toEqual([expect.stringContaining("got none: pass --key"), 2]);
  });

  test("a simulation without measurements names the flags that replace them", async () => {
    await service.redrive.configure("unmeasured", {});
    const simulate = "sim destination unmeasured --outage 8s";
    expect((await run(simulate)).err).toContain("lately: pass --rate\n");
    expect((await run(`${simulate} --rate 5`)).err).toContain("lately: pass --latency\n");
  });

  test("the URL must be one of a service", () => {
    expect(() => serviceUrl("ftp://127.0.0.1")).toThrow(
      "Must be a URL such as http://127.0.0.1:7337",
    );
    expect(() => serviceUrl("localhost:port")).toThrow("Must be a URL");
    expect(serviceUrl("[::1]:7337")).toBe("http://[::1]:7337");
  });

  test("the scheme of the URL may be left out", async () => {
    const { code, out } = await redrive(`tasks ls --limit 1 --url ${new URL(service.url).host}`);
    expect([code, out]).toEqual([0, expect.stringContaining("status")]);
  });

  test("an unreachable service is reported with what to do", async () => {
    await service.app.ready();
    const { err, code } = await redrive("tasks ls --url http://127.0.0.1:9");
    expect(err).toMatch(
      /^error: no Redrive service responds at \S+ \(.*\): start it with `redrive dev`/u,
    );
    expect(code).toBe(1);
  });
});

describe("dlq", () => {
  test("counts, asks for confirmation, redrives, and purges only with a filter", async () => {
    await send("/ill");
    expect((await run("dlq ls --group")).out).toContain(targetUrl);
    expect((await run("dlq redrive --dry-run")).out).toMatch(/dead letters? would be redriven/u);
    expect(await run("dlq redrive")).toMatchObject({
      code: 2,
      err: expect.stringContaining("--yes"),
    });
    const { out, code } = await run("dlq redrive --yes --rate 1000");
    expect([out, code]).toEqual([
      expect.stringMatching(/^\d+ of \d+ dead letters? redriven\.\n/u),
      0,
    ]);
    expect((await run("dlq ls --all")).out).toContain("redriven");
    const left = JSON.parse((await run("dlq ls --json")).out) as {
      tasks: { redrivenTo: unknown }[];
    };
    expect(left.tasks.map(({ redrivenTo }) => redrivenTo)).toEqual(left.tasks.map(() => null));
    expect(await run("dlq purge")).toMatchObject({ code: 2 });
    expect(JSON.parse((await run("dlq purge --all --yes --json")).out).discarded).toBeGreaterThan(
      0,
    );
  });
});

test("dlq redrive lists the dead letters that it skipped and exits with 3", async () => {
  await service.redrive.policies.register({ policyId: "gone", maxAttempts: 1 });
  const sent = await run(`send ${targetUrl}/ill --policy gone --wait 5s`);
  const taskId = sent.out.split(" ")[0] ?? "";
  await service.redrive.policies.remove("gone");
  const { out, code } = await run(`dlq redrive ${taskId} --yes`);
  expect(out.split("\n").slice(0, 2)).toEqual([
    "0 of 1 dead letter redriven.",
    `1 dead letter skipped (there is no policy "gone"): ${taskId}`,
  ]);
  expect(code).toBe(3);
  expect((await run("dlq redrives")).out).toContain("1 skipped: there");
});

describe("policies and destinations", () => {
  test("a document becomes the newest version of its id", async () => {
    const path = join(folder, "mine.json");
    writeFileSync(path, '{"policyId":"mine","maxAttempts":3}');
    expect((await run(`policies apply ${path} --dry-run`)).out).toBe(
      "mine would become version 1.\n",
    );
    expect((await run(`policies apply ${path}`)).out).toBe("mine is at version 1 (new).\n");
    expect((await run(`policies apply ${path}`)).out).toBe("mine is at version 1 (unchanged).\n");
    writeFileSync(path, '{"policyId":"mine","maxAttempts":4}');
    expect((await run(`policies apply ${path}`)).out).toBe("mine is at version 2 (was 1).\n");
    expect((await run("policies get mine")).out).toContain('"maxAttempts": 4');
    expect((await run("policies ls")).out).toMatch(/\nmine +2 +registered/u);
  });

  test("a destination is paused and resumed", async () => {
    await send("/well");
    await run(`destinations pause ${targetUrl}`);
    expect((await run("destinations ls")).out).toMatch(new RegExp(`${targetUrl} +paused`, "u"));
    expect((await run(`destinations resume ${targetUrl}`)).out).toBe(
      `${targetUrl} is resumed. It starts slowly and speeds up as calls succeed.\n`,
    );
    expect((await run("destinations ls")).out).toMatch(
      new RegExp(`${targetUrl}( +ok| +failing \\(\\d+ of \\d+\\)) `, "u"),
    );
  });

  test("a destination that sent Retry-After is listed with the remaining wait", async () => {
    const busy = createServer((_, response) => {
      response.writeHead(503, { "retry-after": "3600" }).end();
    });
    await new Promise<void>((resolve) => void busy.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(busy.address() as AddressInfo).port}`;
    await run(`send ${url}/busy --policy default --wait 5s`);
    busy.close();
    const { out } = await run("destinations ls");
    expect(out).toMatch(new RegExp(`${url} +Retry-After \\d`, "u"));
  });
});

describe("keys and doctor", () => {
  test("a key is created, listed without its secret, and revoked", async () => {
    const store = `--store sqlite:${join(folder, "keys.db")}`;
    const key = (await redrive(`keys add --name ops ${store}`)).out.trim();
    const keyId = key.split("_")[1];
    const listed = (await redrive(`keys ls ${store} --json`)).out;
    expect(listed).toContain(keyId);
    expect(listed).not.toContain("secretHash");
    expect((await redrive(`keys revoke ${keyId} ${store}`)).code).toBe(0);
    expect((await redrive(`keys revoke ${keyId} ${store}`)).code).toBe(1);
    expect(await redrive(`keys add --scopes all ${store}`)).toMatchObject({ code: 2 });
  });

  test("doctor reports what is wrong and how to fix it", async () => {
    const port = new URL(targetUrl).port;
    const well = await redrive(`doctor --port 0 --store sqlite:${folder}/none.db`);
    expect(well).toMatchObject({ code: 0, out: expect.not.stringContaining("fail") });
    const ill = await redrive(`doctor --port ${port} --store sqlite:${folder}/none.db --json`);
    expect(ill.code).toBe(1);
    expect(JSON.parse(ill.out).checks).toContainEqual(
      expect.objectContaining({
        name: "port",
        state: "fail",
        fix: expect.stringContaining("--port"),
      }),
    );
  });
});

describe("export and import", () => {
  test("unfinished tasks are imported once, and refused lines are reported by number", async () => {
    await run(`send ${targetUrl}/well --in 1h --key kept --body-json {"n":1}`);
    await run(`send ${targetUrl}/well --in 1h --header x-token:${"s3cret"} --key masked`);
    const { out, code } = await run("tasks export --status PENDING");
    expect(code).toBe(0);
    expect(out).not.toContain("s3cret");
    const file = join(folder, "tasks.ndjson");
    writeFileSync(file, `${out}not json\n`);
    const other = await startService({ host: "127.0.0.1", port: 0, store: "memory:" });
    const into = async (line: string) => {
      const ended = await redrive(`tasks import ${file} --json --url ${other.url} ${line}`);
      return { code: ended.code, ...JSON.parse(ended.out) };
    };
    const count = out.trimEnd().split("\n").length;
    expect(await into("--dry-run")).toMatchObject({ code: 3, imported: count - 1, dryRun: true });
    expect((await other.redrive.list()).tasks).toEqual([]);
    expect(await into("--yes")).toMatchObject({ code: 3, imported: count - 1, known: 0 });
    const all = await into("--yes --header x-token:s3cret");
    expect(all).toMatchObject({ code: 3, imported: 1, known: count - 1 });
    const why = "must be JSON";
    expect(all.refused).toEqual([{ line: count + 1, code: "INVALID_IMPORT", why }]);
    const { tasks } = await other.redrive.list({ idempotencyKey: "kept" });
    const [kept] = tasks;
    const stored = await other.redrive.get(kept?.taskId ?? "");
    expect(Buffer.from(stored?.body ?? []).toString()).toBe('{"n":1}');
    expect(kept?.headers).toMatchObject({ "content-type": "application/json" });
    await other.stop();
  });

  test("large bodies are files next to the export", async () => {
    const options = { host: "127.0.0.1", port: 0, store: "memory:" };
    const start = (name: string) =>
      startService({ ...options, blobs: `file:${join(folder, name)}` });
    const [from, to] = [await start("blobs-a"), await start("blobs-b")];
    const body = "é".repeat(50_000);
    for (const idempotencyKey of ["large-1", "large-2"]) {
      const { taskId } = await from.redrive.enqueue({
        targetUrl: `${targetUrl}/well`,
        scheduledAt: from.redrive.now() + 3_600_000,
        idempotencyKey,
        body,
      });
      expect((await from.redrive.get(taskId))?.bodyRef).toEqual(expect.any(String));
    }
    const bodies = join(folder, "bodies");
    const bare = await redrive(`tasks export --url ${from.url}`);
    expect(bare.err).toContain("note: 2 tasks with a large body, which is not in the export");
    const { out } = await redrive(`tasks export --url ${from.url} --bodies ${bodies}`);
    const file = join(folder, "large.ndjson");
    writeFileSync(file, out);
    const into = async (folderOfBodies: string) => {
      const flags = `--json --yes --url ${to.url} --bodies ${folderOfBodies}`;
      return JSON.parse((await redrive(`tasks import ${file} ${flags}`)).out);
    };
    expect(readdirSync(bodies)).toHaveLength(2);
    const missing = await into(join(folder, "none"));
    expect(missing.refused.map(({ line }: { line: number }) => line)).toEqual([1, 2]);
    expect(await into(bodies)).toMatchObject({ imported: 2, refused: [] });
    const [task] = (await to.redrive.list({ idempotencyKey: "large-1" })).tasks;
    const url = `${to.url}/retry-tasks/${task?.taskId}/body`;
    expect(await (await fetch(url)).text()).toBe(body);
    // A body that was lost does not stop the export of the others.
    for (const name of readdirSync(join(folder, "blobs-a"), { recursive: true, encoding: "utf8" }))
      if (/\.[\da-f]{64}$/u.test(name)) rmSync(join(folder, "blobs-a", name));
    const lost = await redrive(`tasks export --url ${from.url} --bodies ${bodies}-again`);
    expect([lost.code, lost.out]).toEqual([3, out]);
    expect(lost.err.match(/error: the body of \S+ could not be read/gu)).toHaveLength(2);
    await Promise.all([from.stop(), to.stop()]);
  });
});

test("redrives are listed, paused, resumed and canceled by id", async () => {
  expect((await run("dlq cancel nothing")).code).toBe(1);
  for (let n = 0; n < 4; n++) await send("/ill");
  await run("dlq redrive --yes --rate 0.1 --no-wait");
  const { redrives } = JSON.parse((await run("dlq redrives --json")).out);
  const { redriveId } = redrives[0];
  expect((await run(`dlq pause ${redriveId}`)).out).toContain("is PAUSED");
  expect((await run(`dlq resume ${redriveId}`)).out).toContain("is RUNNING");
  expect((await run(`dlq cancel ${redriveId}`)).out).toContain("is CANCELLED");
  expect(await run(`dlq resume ${redriveId}`)).toMatchObject({ code: 1 });
  expect((await run("dlq redrives")).out).toMatch(/CANCELLED/u);
});

describe("destinations get and set", () => {
  const documentFile = (document: unknown) => {
    const path = join(folder, "destination.json");
    writeFileSync(path, JSON.stringify(document));
    return path;
  };

  test("set says what lint finds in a document that the service accepts", async () => {
    const path = documentFile({ retryBudget: { ratio: 10 } });
    const { code, err } = await run(`destinations set generous ${path}`);
    expect(code).toBe(0);
    expect(err).toContain("note: warning large-budget (retryBudget.ratio): A budget of 1000 %");
  });

  test("set shows the change, a dry run changes nothing, and get shows the document", async () => {
    const path = documentFile({ concurrency: { max: 3 } });
    const planned = await run(`destinations set shop ${path} --dry-run`);
    expect(planned.out).toBe('shop would change:\n  concurrency: (default) -> {"max":3}\n');
    expect((await run("destinations get shop")).err).toContain('there is no destination "shop"');
    expect((await run(`destinations set shop ${path}`)).out).toContain("shop is changed:");
    expect((await run(`destinations set shop ${path}`)).out).toBe("shop is unchanged.\n");
    expect((await run("destinations get shop")).out).toContain('"max": 3');
  });

  test.each([
    [[1], "must be an object, got a list"],
    [{ concurency: {} }, 'did you mean "concurrency"?'],
  ])("a bad document is refused: %j", async (document, text) => {
    const { err, code } = await run(`destinations set shop ${documentFile(document)}`);
    expect([err, code]).toEqual([expect.stringContaining(text), 2]);
  });

  test("edit opens the editor on the document and stores what it saves", async () => {
    vi.stubEnv(
      "VISUAL",
      `node -e 'require("fs").writeFileSync(process.argv[1], "{\\"concurrency\\":{\\"max\\":9}}")'`,
    );
    onTestFinished(() => void vi.unstubAllEnvs());
    const { out } = await run("destinations edit edited");
    expect(out).toBe('edited is changed:\n  concurrency: (default) -> {"max":9}\n');
  });
});
