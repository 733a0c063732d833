/** `redrive` in a real browser, against a real server, with nothing of Node's in reach. */
// needs: chromium
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { launchChromium } from "../servers/chromium.ts";
import { bundle } from "../size/bundle.ts";

const PAGE = `<!doctype html><title>redrive</title><script type="module">
import * as redrive from "/redrive.js";
window.redrive = redrive;
document.title = "ready";
</script>`;

/** What the page puts on its window. */
type Library = typeof import("redrive");
declare const redrive: Library;

/** What the server saw of a request. */
interface Seen {
  readonly method: string;
  readonly url: string;
  readonly body: string;
  readonly headers: IncomingMessage["headers"];
}

const seen: Seen[] = [];
let script = "";
const server = createServer((request, response) => void answer(request, response));

/** `/flaky` fails twice with 503, `/slow` never answers, `/post` takes a body at the second try. */
async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = "", url = "", headers } = request;
  if (url === "/") return reply(response, 200, PAGE, "text/html");
  if (url === "/redrive.js") return reply(response, 200, script, "text/javascript");
  seen.push({ method, url, body: await text(request), headers });
  if (url === "/slow") return;
  const failures = url === "/flaky" ? 2 : 1;
  if (seen.length <= failures) return reply(response, 503, "not yet", "text/plain");
  reply(response, 200, "done", "text/plain");
}

function reply(response: ServerResponse, status: number, body: string, type: string): void {
  response.writeHead(status, { "content-type": type }).end(body);
}

let browser: Browser;
let page: Page;
const complaints: string[] = [];

beforeAll(async () => {
  ({ code: script } = await bundle('export * from "redrive";'));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  browser = await launchChromium();
  page = await browser.newPage();
  page.on("pageerror", (error) => complaints.push(error.message));
  await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  await page.waitForFunction(() => document.title === "ready");
});

afterAll(async () => {
  await browser.close();
  server.closeAllConnections();
  server.close();
});

beforeEach(() => {
  seen.length = 0;
});

test("loads without a global of Node's, and complains of nothing", async () => {
  const found = await page.evaluate(() =>
    ["process", "Buffer", "global", "setImmediate"].filter((name) => name in globalThis),
  );
  expect(found).toEqual([]);
  expect(complaints).toEqual([]);
  expect(script).not.toMatch(/\bBuffer\b|\brequire\(|from\s*["'`]node:/u);
});

test("retry calls again until the function succeeds", async () => {
  const attempts = await page.evaluate(() =>
    redrive.retry(
      ({ attempt }) => {
        if (attempt < 3) throw new Error("not yet");
        return attempt;
      },
      { initialDelayMs: 1 },
    ),
  );
  expect(attempts).toBe(3);
});

test("createFetch retries 503 until 200", async () => {
  const answered = await page.evaluate(async () => {
    const fetchWell = redrive.createFetch({ initialDelayMs: 1 });
    const response = await fetchWell("/flaky");
    return [response.status, await response.text()];
  });
  expect(answered).toEqual([200, "done"]);
  expect(seen.map(({ headers }) => headers["redrive-attempt"])).toEqual(["1", "2", "3"]);
});

test("a body is sent again, byte for byte, under one idempotency key", async () => {
  const status = await page.evaluate(async () => {
    const fetchWell = redrive.createFetch({ initialDelayMs: 1 }, { idempotencyKey: "auto" });
    return (await fetchWell("/post", { method: "POST", body: "grüße" })).status;
  });
  expect(status).toBe(200);
  expect(seen.map(({ body }) => body)).toEqual(["grüße", "grüße"]);
  const [first, second] = seen.map(({ headers }) => headers["idempotency-key"]);
  expect(first).toMatch(/^[\da-f-]{36}$/u);
  expect(second).toBe(first);
});

test("an abort ends the wait at once, with the signal's reason", async () => {
  const ended = await page.evaluate(async () => {
    const controller = new AbortController();
    const startMs = performance.now();
    setTimeout(() => controller.abort(new Error("the user left")), 20);
    const call = redrive.retry(() => Promise.reject(new Error("down")), {
      signal: controller.signal,
      initialDelayMs: 20_000,
      maxDelayMs: 20_000,
      jitterType: "NONE",
    });
    const message = await call.catch((error: Error) => error.message);
    return { message, isBeforeItsEnd: performance.now() - startMs < 20_000 };
  });
  expect(ended).toEqual({ message: "the user left", isBeforeItsEnd: true });
});

test("an attempt that takes too long is cut off on the wire", async () => {
  const ended = await page.evaluate(async () => {
    const fetchWell = redrive.createFetch({ maxAttempts: 1, attemptTimeoutMs: 100 });
    const error: unknown = await fetchWell("/slow").catch((reason: unknown) => reason);
    const isOurs = error instanceof redrive.RedriveError;
    return isOurs ? [error.code, (error.cause as { code: string }).code] : String(error);
  });
  expect(ended).toEqual(["GAVE_UP", "ATTEMPT_TIMEOUT"]);
});

test("a breaker opens and refuses without a request", async () => {
  const reason = await page.evaluate(async () => {
    const api = redrive.destination("api", {
      policy: { maxAttempts: 1 },
      breaker: { minCalls: 2 },
    });
    const fail = () => api.run(() => Promise.reject(new Error("down"))).catch((e: unknown) => e);
    await fail();
    await fail();
    const error = await fail();
    return error instanceof redrive.RedriveError ? error.reason : String(error);
  });
  expect(reason).toBe("circuit-open");
});

test("incoming runs its function where there is no async context to enter", async () => {
  const attempts = await page.evaluate(() =>
    redrive.incoming({ "redrive-attempt": "1" }, () =>
      redrive.retry(
        ({ attempt }) => {
          if (attempt < 2) throw new Error("not yet");
          return attempt;
        },
        { initialDelayMs: 1 },
      ),
    ),
  );
  expect(attempts).toBe(2);
});
