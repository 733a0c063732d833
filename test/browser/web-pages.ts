/**
 * Web pages: the built pages in real Chromium, from a plain static server or from the real service,
 * with what the browser complained about. The caller closes what it opened.
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
  /** Of the simulator's page, without a hash. */
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

/** One browser and one site for all tests of a file: there before the first, gone after the last. */
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
  // Filled before any test can look.
  return opened as Opened;
}

const MAIN = fileURLToPath(new URL("../../apps/cli/dist/main.js", import.meta.url));

/**
 * What the built command line prints, also where it exits with 1 because a lab missed. Its links
 * lead to the site, if the service serves that.
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

/** A link that the command line prints for the service, on this site. */
export function onSite(site: Site, url: string): string {
  return `${site.url}${new URL(url).hash}`;
}

const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css",
  ".html": "text/html",
  ".js": "text/javascript",
  ".svg": "image/svg+xml",
};

/** A server that knows files and nothing else, in some folder, as any static host is. */
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

/** What takes longer than this in a page is broken, however busy the machine is. */
const PATIENCE_MS = 45_000;

/** `REDRIVE_SLOWDOWN=6`: the page's main thread at a sixth of its speed, to look for races. */
const SLOWDOWN = Number(process.env["REDRIVE_SLOWDOWN"] ?? 1);

/** As `expect`, asked again until it holds: a page draws when it can. */
export function eventually<T>(ask: () => T | Promise<T>) {
  return expect.poll(ask, { timeout: PATIENCE_MS });
}

export interface OpenPage {
  readonly page: Page;
  /** What the browser had to say: errors, warnings, refused resources. Empty is good. */
  readonly complaints: readonly string[];
}

/** Opens an address and waits until the view is on the stage. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<OpenPage> {
  const context = await browser.newContext({ acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const complaints: string[] = [];
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("requestfailed", (request) => complaints.push(`${request.url()} failed`));
  if (SLOWDOWN > 1) {
    const cdp = await context.newCDPSession(page);
    await cdp.send("Emulation.setCPUThrottlingRate", { rate: SLOWDOWN });
  }
  await page.goto(url);
  await page.locator("main .stage").waitFor();
  return { page, complaints };
}

/**
 * Waits until every figure on the page is of what the page shows: what is still to be answered is
 * marked as busy. Labs are not waited for: their progress is a figure of its own.
 */
export async function settled(page: Page): Promise<void> {
  await page.waitForFunction(
    () => document.querySelector('[aria-busy="true"]:not(.progress)') === null,
  );
}

/** Keeps from the worker whatever the page asks from now on, until it is let go. */
export async function holdQuestions(page: Page): Promise<() => Promise<void>> {
  await page.evaluate(() => {
    const { prototype } = Worker;
    const post = prototype.postMessage;
    const held: (() => void)[] = [];
    prototype.postMessage = function (this: Worker, message: unknown) {
      held.push(() => post.call(this, message));
    };
    const letGo = () => {
      prototype.postMessage = post;
      for (const send of held) send();
    };
    Object.assign(globalThis, { letGo });
  });
  return () => page.evaluate(() => (globalThis as unknown as { letGo(): void }).letGo());
}

/** Counts what the page asks its worker from now on, of one kind. */
export async function countedQuestions(page: Page, kind: string): Promise<() => Promise<number>> {
  await page.evaluate((wanted) => {
    const { prototype } = Worker;
    const post = prototype.postMessage;
    const counted = { questions: 0 };
    prototype.postMessage = function (this: Worker, message: { readonly kind: string }) {
      if (message.kind === wanted) counted.questions++;
      post.call(this, message);
    };
    Object.assign(globalThis, { counted });
  }, kind);
  return () =>
    page.evaluate(
      () => (globalThis as unknown as { counted: { questions: number } }).counted.questions,
    );
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe-core finds serious or critical, a line each, once nothing is dimmed. */
export async function seriousFindings(page: Page): Promise<readonly string[]> {
  await settled(page);
  // Through the debugger, because the page's own policy lets no other script in.
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

/** The bytes of the file that an entry of the Export menu gives, with its name. */
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
