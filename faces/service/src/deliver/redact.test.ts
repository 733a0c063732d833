/** Tests of what is stored of a response, and what is masked. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  BodyCapture,
  MAX_STORED_BODY,
  readHead,
  redact,
  redactHeaders,
  requestIdOf,
  secretVariants,
} from "./response.ts";

const SECRET = "Bearer s3cr3t-t0ken";

describe("redaction", () => {
  it.each([
    ["the whole value", `you sent ${SECRET}!`, "you sent ***!"],
    ["the credentials alone", 'token="s3cr3t-t0ken"', 'token="***"'],
    ["every occurrence", "s3cr3t-t0ken s3cr3t-t0ken", "*** ***"],
    ["nothing else", "Bearer other", "Bearer other"],
  ])("masks %s", (_what, text, masked) => {
    expect(redact(text, secretVariants([SECRET]), false)).toBe(masked);
  });

  it.each(['pass"word', "pass\\word", "pass\tword"])("masks %j escaped for JSON", (secret) => {
    const echoed = JSON.stringify({ sent: secret });
    expect(redact(echoed, secretVariants([secret]), false)).toBe('{"sent":"***"}');
  });

  it("masks a secret in latin1 and in UTF-8", () => {
    const spellings = secretVariants(["cl\u00e9-secr\u00e8te"]);
    expect(redact("sent cl\u00e9-secr\u00e8te!", spellings, false)).toBe("sent ***!");
    expect(redact("sent cl\u00c3\u00a9-secr\u00c3\u00a8te!", spellings, false)).toBe("sent ***!");
  });

  it("masks a secret that is cut off at the end", () => {
    const spellings = secretVariants([SECRET]);
    expect(redact("you sent s3cr3t-t", spellings, true)).toBe("you sent ***");
    expect(redact("you sent s3cr3t-t", spellings, false)).toBe("you sent s3cr3t-t");
  });

  it("does not mask values that are too short to be secrets", () => {
    expect(secretVariants(["abc", ""])).toEqual([]);
  });

  it("masks a secret at every position", () => {
    const secret = fc.string({ minLength: 4, maxLength: 20 });
    fc.assert(
      fc.property(fc.string(), secret, fc.string(), (before, value, after) => {
        const text = Buffer.from(before + value + after).toString("latin1");
        const masked = redact(text, secretVariants([value]), false);
        fc.pre(!"***".includes(value) && !value.includes("*"));
        expect(masked).not.toContain(Buffer.from(value).toString("latin1"));
      }),
    );
  });
});

describe("the stored body", () => {
  const stored = (chunks: readonly string[], secrets: readonly string[] = []) => {
    const capture = new BodyCapture();
    for (const chunk of chunks) capture.add(Buffer.from(chunk, "latin1"));
    return Buffer.from(capture.stored(secretVariants(secrets), true)).toString("latin1");
  };

  it("is the complete body if it is short", () => {
    expect(stored(["ab", "", "\u00ff\u0000"])).toBe("ab\u00ff\u0000");
    expect(stored([])).toBe("");
  });

  it("is the start of a long body", () => {
    const body = "0123456789".repeat(10_000);
    expect(stored([body])).toBe(body.slice(0, MAX_STORED_BODY));
    expect(stored(body.match(/.{1,999}/g) ?? [])).toBe(body.slice(0, MAX_STORED_BODY));
  });

  it("contains no part of a secret that crosses its end", () => {
    for (let shift = 0; shift <= SECRET.length; shift++) {
      const body = `${"x".repeat(MAX_STORED_BODY - shift)}${SECRET}${"y".repeat(100)}`;
      expect(stored([body], [SECRET])).not.toContain("s3cr");
    }
  });

  it("does not keep the socket's buffer", () => {
    const capture = new BodyCapture();
    const chunk = Buffer.from("before");
    capture.add(chunk);
    chunk.fill("x");
    expect(Buffer.from(capture.stored([], true)).toString()).toBe("before");
  });
});

describe("stored headers", () => {
  const head = (...pairs: string[]) =>
    readHead(
      200,
      pairs.map((text) => Buffer.from(text, "latin1")),
    );

  it("are those of the allowlist, by lower-case name", () => {
    const { headers } = head("Content-Type", "text/plain", "X-Secret", "s", "__proto__", "x");
    expect(headers).toEqual({ "content-type": "text/plain" });
  });

  it("show that a cookie was set but not its value, and a redirect without its query", () => {
    const { headers } = head("Set-Cookie", "id=1", "Location", "https://a.example/p?token=1#x");
    expect(headers).toEqual({ "set-cookie": "***", location: "https://a.example/p" });
  });

  it("are truncated, joined and redacted", () => {
    const { headers } = head("Server", "a".repeat(600), "Allow", "GET", "allow", `PUT ${SECRET}`);
    expect(headers["server"]).toHaveLength(512);
    expect(redactHeaders(headers, secretVariants([SECRET]))["allow"]).toBe("GET, PUT ***");
  });

  it("contain the target's request id", () => {
    expect(requestIdOf(head("X-Amzn-RequestId", "abc").headers)).toBe("abc");
    expect(requestIdOf(head("Server", "abc").headers)).toBeNull();
  });

  it("join several Retry-After headers, so that core ignores them", () => {
    expect(head("Retry-After", "1", "retry-after", "2").headers).toEqual({ "retry-after": "1, 2" });
  });
});
