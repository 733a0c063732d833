/**
 * Web pages: opens the built pages in real Chromium, from a static server or from the real service,
 * and collects the browser's messages. The caller closes what it opened.
 */
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createRedrive } from "@redrive/service";
import { createApp, listenApp } from "@redrive/service/http";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { launchChromium } from "../servers/chromium.ts";

export const PAGES_FOLDER = fileURLToPath(new URL("../../apps/web/dist", import.meta.url));

export interface Site {
  /** The URL of the simulator page, without a hash. */
  readonly url: string;
  close(): Promise<void>;
}

/** The real service on a free port, with the pages under /ui/. */
export async function serveByService(): Promise<Site> {
  const redrive = await createRedrive({ store: "memory:" });
  const app = createApp(redrive, { pagesFolder: PAGES_FOLDER });
  const url = await listenApp(app, { host: "127.0.0.1", port: 0 });
  return {
    url: `${url}/ui/simulator`,
    async close() {
      await app.close();
      await redrive.stop(0);
    },
  };
}

export interface Opened {
  readonly browser: Browser;
  readonly site: Site;
}

/** One browser and one site for all tests of a file. */
export function siteInChromium(serve: () => Promise<Site>): Opened {
  const opened: { browser?: Browser; site?: Site } = {};
  beforeAll(async () => {
    opened.browser = await launchChromium();
    opened.site = await serve();
  });
  afterAll(async () => {
    await opened.browser?.close();
    await opened.site?.close();
  });
  // Set before the first test runs.
  return opened as Opened;
}

const MAIN = fileURLToPath(new URL("../../apps/cli/dist/main.js", import.meta.url));

/**
 * The output of the built command line, even if it exits with 1 because a lab missed. Its links lead
 * to the site if the service serves it.
 */
export function printed(site: Site, ...args: readonly string[]): string {
  const env = { ...process.env, REDRIVE_UI_URL: site.url.replace(/simulator$/u, "") };
  const options = { encoding: "utf8", env, maxBuffer: 1e8 } as const;
  const { stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], options);
  if (stdout === "") throw new Error(`redrive ${args.join(" ")} printed nothing: ${stderr}`);
  return stdout;
}

export function printedJson<T>(site: Site, ...args: readonly string[]): T {
  return JSON.parse(printed(site, ...args, "--json")) as T;
}

/** Rewrites a link of the command line to this site. */
export function onSite(site: Site, url: string): string {
  return `${site.url}${new URL(url).hash}`;
}

const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css",
  ".html": "text/html",
  ".js": "text/javascript",
  ".svg": "image/svg+xml",
};

/** A plain file server for one folder, like a static host. */
export async function serveStatically(prefix = "/some/folder"): Promise<Site> {
  const server: Server = createServer(({ url = "" }, response) => {
    const path = url.split("?")[0] ?? "";
    const name = path.slice(prefix.length + 1) || "index.html";
    try {
      const body = readFileSync(join(PAGES_FOLDER, name));
      response.setHeader("content-type", TYPES[extname(name)] ?? "application/octet-stream");
      response.end(body);
    } catch {
      response.statusCode = 404;
      response.end();
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${prefix}/simulator.html`,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** Anything in a page that takes longer is broken, even on a busy machine. */
const TIMEOUT_MS = 45_000;

/** `REDRIVE_SLOWDOWN=6` runs the main thread of the page at a sixth of its speed, to find races. */
const SLOWDOWN = Number(process.env["REDRIVE_SLOWDOWN"] ?? 1);

/** Like `expect`, but polls until the assertion holds. */
export function eventually<T>(read: () => T | Promise<T>) {
  return expect.poll(read, { timeout: TIMEOUT_MS });
}

export interface OpenPage {
  readonly page: Page;
  /** Errors, warnings and failed requests of the browser. Should be empty. */
  readonly messages: readonly string[];
}

/** Opens an address and waits until the view is shown. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<OpenPage> {
  const context = await browser.newContext({ acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  const messages: string[] = [];
  page.on("console", (message) => messages.push(message.text()));
  page.on("pageerror", (error) => messages.push(error.message));
  page.on("requestfailed", (request) => messages.push(`${request.url()} failed`));
  if (SLOWDOWN > 1) {
    const cdp = await context.newCDPSession(page);
    await cdp.send("Emulation.setCPUThrottlingRate", { rate: SLOWDOWN });
  }
  await page.goto(url);
  await page.locator("main .stage").waitFor();
  return { page, messages };
}

/**
 * Waits until every figure on the page is current: pending figures are marked as busy. Does not wait
 * for labs, because their progress is a figure too.
 */
export async function settled(page: Page): Promise<void> {
  await page.waitForFunction(
    () => document.querySelector('[aria-busy="true"]:not(.progress)') === null,
  );
}

/** Holds back all requests to the worker from now on. Returns a function that releases them. */
export async function holdRequests(page: Page): Promise<() => Promise<void>> {
  await page.evaluate(() => {
    const { prototype } = Worker;
    const post = prototype.postMessage;
    const held: (() => void)[] = [];
    prototype.postMessage = function (this: Worker, message: unknown) {
      held.push(() => post.call(this, message));
    };
    const release = () => {
      prototype.postMessage = post;
      for (const send of held) send();
    };
    Object.assign(globalThis, { release });
  });
  return () => page.evaluate(() => (globalThis as unknown as { release(): void }).release());
}

/** Counts the worker requests of one kind from now on. */
export async function countRequests(page: Page, kind: string): Promise<() => Promise<number>> {
  await page.evaluate((wanted) => {
    const { prototype } = Worker;
    const post = prototype.postMessage;
    const counted = { requests: 0 };
    prototype.postMessage = function (this: Worker, message: { readonly kind: string }) {
      if (message.kind === wanted) counted.requests++;
      post.call(this, message);
    };
    Object.assign(globalThis, { counted });
  }, kind);
  return () =>
    page.evaluate(
      () => (globalThis as unknown as { counted: { requests: number } }).counted.requests,
    );
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Serious and critical axe-core findings, one line each, once nothing is dimmed. */
export async function seriousFindings(page: Page): Promise<readonly string[]> {
  await settled(page);
  // Through the debugger, because the content policy of the page blocks other scripts.
  await page.evaluate(AXE);
  return await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      readonly axe: { run(): Promise<{ violations: AxeViolation[] }> };
    };
    interface AxeViolation {
      readonly id: string;
      readonly impact: string;
      readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
    }
    const { violations } = await axe.run();
    return violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .flatMap(({ id, nodes }) =>
        nodes.map((node) => `${id}: ${node.html} ${node.failureSummary}`),
      );
  });
}

/** The name and content of the file from an item of the Export menu. */
export async function exported(
  page: Page,
  label: string,
): Promise<{ readonly name: string; readonly body: Buffer }> {
  await page.getByRole("button", { name: "Export" }).click();
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.locator(".menu-item", { hasText: label }).first().click(),
  ]);
  return { name: file.suggestedFilename(), body: readFileSync(await file.path()) };
}
