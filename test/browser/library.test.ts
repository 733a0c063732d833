/** The library `redrive` in a real browser against a real server, without Node globals. */
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

/** The global that the page sets. */
type Library = typeof import("redrive");
declare const redrive: Library;

/** A request as the server received it. */
interface ReceivedRequest {
  readonly method: string;
  readonly url: string;
  readonly body: string;
  readonly headers: IncomingMessage["headers"];
}

const received: ReceivedRequest[] = [];
let script = "";
const server = createServer((request, response) => void handle(request, response));

/** `/flaky` fails twice with 503, `/slow` never responds, `/post` succeeds at the second attempt. */
async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = "", url = "", headers } = request;
  if (url === "/") return send(response, 200, PAGE, "text/html");
  if (url === "/redrive.js") return send(response, 200, script, "text/javascript");
  received.push({ method, url, body: await text(request), headers });
  if (url === "/slow") return;
  const failures = url === "/flaky" ? 2 : 1;
  if (received.length <= failures) return send(response, 503, "not yet", "text/plain");
  send(response, 200, "done", "text/plain");
}

function send(response: ServerResponse, status: number, body: string, type: string): void {
  response.writeHead(status, { "content-type": type }).end(body);
}

let browser: Browser;
let page: Page;
const messages: string[] = [];

beforeAll(async () => {
  ({ code: script } = await bundle('export * from "redrive";'));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  browser = await launchChromium();
  page = await browser.newPage();
  page.on("pageerror", (error) => messages.push(error.message));
  await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  await page.waitForFunction(() => document.title === "ready");
});

afterAll(async () => {
  await browser.close();
  server.closeAllConnections();
  server.close();
});

beforeEach(() => {
  received.length = 0;
});

test("loads without Node globals and without errors", async () => {
  const found = await page.evaluate(() =>
    ["process", "Buffer", "global", "setImmediate"].filter((name) => name in globalThis),
  );
  expect(found).toEqual([]);
  expect(messages).toEqual([]);
  expect(script).not.toMatch(/\bBuffer\b|\brequire\(|from\s*["'`]node:/u);
});

test("retry repeats the call until the function succeeds", async () => {
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
  const result = await page.evaluate(async () => {
    const retryingFetch = redrive.createFetch({ initialDelayMs: 1 });
    const response = await retryingFetch("/flaky");
    return [response.status, await response.text()];
  });
  expect(result).toEqual([200, "done"]);
  expect(received.map(({ headers }) => headers["redrive-attempt"])).toEqual(["1", "2", "3"]);
});

test("a body is resent unchanged with the same idempotency key", async () => {
  const status = await page.evaluate(async () => {
    const retryingFetch = redrive.createFetch({ initialDelayMs: 1 }, { idempotencyKey: "auto" });
    return (await retryingFetch("/post", { method: "POST", body: "grüße" })).status;
  });
  expect(status).toBe(200);
  expect(received.map(({ body }) => body)).toEqual(["grüße", "grüße"]);
  const [first, second] = received.map(({ headers }) => headers["idempotency-key"]);
  expect(first).toMatch(/^[\da-f-]{36}$/u);
  expect(second).toBe(first);
});

test("an abort ends the wait immediately with the reason of the signal", async () => {
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
    return { message, endedEarly: performance.now() - startMs < 20_000 };
  });
  expect(ended).toEqual({ message: "the user left", endedEarly: true });
});

test("an attempt that exceeds its timeout is aborted", async () => {
  const ended = await page.evaluate(async () => {
    const retryingFetch = redrive.createFetch({ maxAttempts: 1, attemptTimeoutMs: 100 });
    const error: unknown = await retryingFetch("/slow").catch((reason: unknown) => reason);
    const isRedriveError = error instanceof redrive.RedriveError;
    return isRedriveError ? [error.code, (error.cause as { code: string }).code] : String(error);
  });
  expect(ended).toEqual(["GAVE_UP", "ATTEMPT_TIMEOUT"]);
});

test("an open breaker rejects without a request", async () => {
  const reason = await page.evaluate(async () => {
    const api = redrive.destination("api", {
      policy: { maxAttempts: 1 },
      breaker: { minCalls: 2 },
    });
    const down = Object.assign(new Error("down"), { status: 503 });
    const fail = () => api.run(() => Promise.reject(down)).catch((e: unknown) => e);
    await fail();
    await fail();
    const error = await fail();
    return error instanceof redrive.RedriveError ? error.reason : String(error);
  });
  expect(reason).toBe("circuit-open");
});

test("incoming runs its function without async context", async () => {
  const attempts = await page.evaluate(() =>
    redrive.incoming(
      { "redrive-attempt": "1" },
      () =>
        redrive.retry(
          ({ attempt }) => {
            if (attempt < 2) throw new Error("not yet");
            return attempt;
          },
          { initialDelayMs: 1 },
        ),
      { trust: "all" },
    ),
  );
  expect(attempts).toBe(2);
});
