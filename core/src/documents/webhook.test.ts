/** Tests of the texts of Standard Webhooks. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readWebhook, signingSecretBase64 } from "./webhook.ts";

const LAST = fc.constantFrom(..."ABEQZagwz048+/-_*=");

test("a secret is good if Node writes the bytes that it reads in the same way", () => {
  const bytes = fc.uint8Array({ minLength: 20, maxLength: 68 });
  fc.assert(
    fc.property(bytes, fc.array(LAST, { maxLength: 3 }), (start, end) => {
      const written = Buffer.from(start).toString("base64").replace(/=+$/u, "");
      const text = `${written.slice(0, -1)}${end.join("")}`;
      const unpadded = text.replace(/=+$/u, "");
      const read = Buffer.from(unpadded, "base64");
      const isSame = read.toString("base64").replace(/=+$/u, "") === unpadded;
      const isGood = isSame && read.length >= 24 && read.length <= 64;
      expect(signingSecretBase64(`whsec_${text}`)).toBe(isGood ? unpadded : undefined);
    }),
    { numRuns: 2000 },
  );
});

describe("the headers of a webhook", () => {
  const NOW = 1_700_000_000_000;
  const good = {
    "webhook-id": "msg_1",
    "webhook-timestamp": String(NOW / 1000),
    "webhook-signature": "v1a,x v1,AAAA v1,BBBB v2,CCCC",
  };
  const read = (more: Record<string, unknown> = {}) =>
    readWebhook((name) => ({ ...good, ...more })[name as keyof typeof good], NOW);

  test("have what is signed, and the signatures of the known version", () => {
    expect(read()).toEqual({
      id: "msg_1",
      signedPrefix: "msg_1.1700000000.",
      signatures: ["AAAA", "BBBB"],
    });
  });

  test.each([
    [{ "webhook-id": undefined }, "missing-header"],
    [{ "webhook-id": "" }, "missing-header"],
    [{ "webhook-signature": ["v1,AAAA", "v1,BBBB"] }, "missing-header"],
    [{ "webhook-timestamp": "soon" }, "bad-timestamp"],
    [{ "webhook-timestamp": "1700000000.5" }, "bad-timestamp"],
    [{ "webhook-timestamp": String(NOW / 1000 - 301) }, "too-old"],
    [{ "webhook-timestamp": String(NOW / 1000 + 301) }, "too-new"],
  ])("are refused: %j is %s", (more, refusal) => {
    expect(read(more)).toBe(refusal);
  });
});
