/** Tests that a shell passes the copied command on unchanged. */
import { execFileSync } from "node:child_process";
import fc from "fast-check";
import { expect, test } from "vitest";
import { curlCommand } from "./curl.ts";

/** The arguments that curl gets, and its standard input. */
function argumentsOf(command: string): readonly string[] {
  const script = `curl() { printf '%s\\0' "$@"; case " $* " in *" @- "*) cat;; esac; }\n${command}`;
  return execFileSync("sh", ["-c", script], { encoding: "utf8" }).split("\0");
}

const request = (fields: object) => ({
  method: "POST",
  targetUrl: "http://127.0.0.1/hook?a=[1-3]&b=$HOME",
  headers: {},
  bodyRef: null,
  ...fields,
});

test("a shell passes hostile headers, bodies and URLs on unchanged", () => {
  const body = "@/etc/passwd '; rm -rf / #\n$(id) `id` \"\\";
  const command = curlCommand(request({ headers: { "x-a": "it's; $(id)" }, body }));
  expect(argumentsOf(command).slice(0, -1)).toEqual([
    "--globoff",
    "--request",
    "POST",
    "--header",
    "x-a: it's; $(id)",
    "--data-raw",
    body,
    "http://127.0.0.1/hook?a=[1-3]&b=$HOME",
  ]);
});

test("any text without NUL reaches curl as it is", () => {
  const text = fc.string({ unit: "grapheme" }).filter((one) => !one.includes("\0"));
  fc.assert(
    fc.property(text, (body) => {
      expect(argumentsOf(curlCommand(request({ body })))).toContain(body);
    }),
    { numRuns: 15 },
  );
});

test("bytes and text with NUL arrive on standard input", () => {
  expect(argumentsOf(curlCommand(request({ bodyBase64: btoa("raw bytes") }))).at(-1)).toBe(
    "raw bytes",
  );
  expect(curlCommand(request({ body: "a\0b" }))).toContain("base64 -d");
});

test("a body in the blob store is read from a file", () => {
  expect(argumentsOf(curlCommand(request({ bodyRef: "id.3.abc" })))).toContain("@body");
});

test("a task without a body has none in the command", () => {
  expect(curlCommand(request({ method: "HEAD" }))).toBe(
    "curl --globoff --head \\\n  'http://127.0.0.1/hook?a=[1-3]&b=$HOME'",
  );
});
