/**
 * Tests of the pages under /ui/: content types, caching, strict headers, and nothing outside of the
 * folder.
 */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { createRedrive, type Redrive } from "@redrive/service";
import { createApp, memoryKeyStore } from "@redrive/service/http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "redrive-pages-"));
const SCRIPT = "console.log('a script');\n".repeat(40);
let redrive: Redrive;

beforeAll(async () => {
  mkdirSync(join(folder, "pages", "assets"), { recursive: true });
  writeFileSync(join(folder, "secret.txt"), "the family silver");
  const files = { "index.html": "<!doctype html>", "simulator.html": "<!doctype html>s" };
  for (const [name, text] of Object.entries(files))
    writeFileSync(join(folder, "pages", name), text);
  writeFileSync(join(folder, "pages", "assets", "index-abc.js"), SCRIPT);
  writeFileSync(join(folder, "pages", "notes.exe"), "no type we know");
  symlinkSync(join(folder, "secret.txt"), join(folder, "pages", "link.txt"));
  redrive = await createRedrive({ store: "memory:" });
});

afterAll(async () => {
  await redrive.stop(0);
  rmSync(folder, { recursive: true });
});

/** A server with the folder's pages, and its responses. */
async function get(url: string, headers: Record<string, string> = {}, pages = "pages") {
  const app = createApp(redrive, { pagesFolder: join(folder, pages) });
  const response = await app.inject({ url, headers: { host: "localhost", ...headers } });
  await app.close();
  return response;
}

describe("pages", () => {
  test.each([
    ["/ui/", "<!doctype html>"],
    ["/ui/index.html", "<!doctype html>"],
    ["/ui/simulator", "<!doctype html>s"],
    ["/ui/simulator.html", "<!doctype html>s"],
  ])("%s is a page that may load nothing from elsewhere", async (url, body) => {
    const { statusCode, headers, body: got } = await get(url);
    expect([statusCode, got]).toEqual([200, body]);
    expect(headers["content-type"]).toBe("text/html; charset=utf-8");
    expect(headers["content-security-policy"]).toContain("default-src 'self'");
    expect(headers["content-security-policy"]).not.toContain("unsafe");
    expect(headers["x-content-type-options"]).toBe("nosniff");
    expect(headers["cache-control"]).toBe("no-cache");
  });

  test("the folder without its slash redirects to it", async () => {
    const { statusCode, headers } = await get("/ui");
    expect([statusCode, headers["location"]]).toEqual([308, "ui/"]);
  });

  test("/ leads to the pages, and the pages are told that a service serves them", async () => {
    const { statusCode, headers } = await get("/");
    expect([statusCode, headers["location"]]).toEqual([302, "ui/"]);
    writeFileSync(join(folder, "pages", "served.html"), '<!doctype html><html lang="en">');
    expect((await get("/ui/served")).body).toBe('<!doctype html><html data-service lang="en">');
  });

  test("a file with a content hash is cached forever", async () => {
    const { headers, body } = await get("/ui/assets/index-abc.js");
    expect(headers["content-type"]).toBe("text/javascript; charset=utf-8");
    expect(headers["cache-control"]).toBe("public, max-age=31536000, immutable");
    expect(body).toBe(SCRIPT);
  });

  test("a caller that accepts gzip gets it, and one with the current file gets a 304", async () => {
    const zipped = await get("/ui/assets/index-abc.js", { "accept-encoding": "gzip" });
    expect(zipped.headers["content-encoding"]).toBe("gzip");
    expect(gunzipSync(zipped.rawPayload).toString()).toBe(SCRIPT);
    const etag = String(zipped.headers["etag"]);
    const again = await get("/ui/assets/index-abc.js", { "if-none-match": etag });
    expect([again.statusCode, again.body]).toEqual([304, ""]);
  });

  test.each([
    "/ui/nowhere",
    "/ui/../secret.txt",
    "/ui/%2e%2e/secret.txt",
    "/ui/..%2fsecret.txt",
    "/ui/assets/../../secret.txt",
    "/ui/assets/..%5c..%5csecret.txt",
    "/ui//etc/passwd",
    "/ui/link.txt",
    "/ui/notes.exe",
    "/ui/assets/",
  ])("%s does not exist", async (url) => {
    const { statusCode, body } = await get(url);
    expect(statusCode).toBe(404);
    expect(body).not.toContain("the family silver");
    expect(JSON.parse(body)).toMatchObject({ code: "NOT_FOUND" });
  });

  test("another method gets the list of allowed methods", async () => {
    const app = createApp(redrive, { pagesFolder: join(folder, "pages") });
    const { statusCode, headers } = await app.inject({
      method: "POST",
      url: "/ui/",
      headers: { host: "localhost", "content-type": "application/json" },
      payload: "{}",
    });
    await app.close();
    expect([statusCode, headers["allow"]]).toEqual([405, "GET, HEAD"]);
  });

  test("a missing build is reported", async () => {
    for (const url of ["/ui/", "/ui/simulator"]) {
      const { statusCode, body } = await get(url, {}, "nowhere");
      expect(statusCode).toBe(404);
      expect(body).toContain("the pages are not built: run `npm run build`");
    }
  });

  test("a server without a folder has no pages", async () => {
    const app = createApp(redrive);
    const { statusCode } = await app.inject({ url: "/ui/", headers: { host: "localhost" } });
    await app.close();
    expect(statusCode).toBe(404);
  });

  test("pages require no key, because they contain no data", async () => {
    const app = createApp(redrive, {
      pagesFolder: join(folder, "pages"),
      keys: memoryKeyStore([]),
    });
    const { statusCode } = await app.inject({ url: "/ui/", headers: { host: "localhost" } });
    await app.close();
    expect(statusCode).toBe(200);
  });
});
