/** Tests of Standard Webhooks signatures, with the vectors of the specification. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseSigningSecret, signWebhook, verifyWebhook } from "./signing.ts";

/** The vector of the specification's own libraries (standard-webhooks, `sign function works`). */
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const NOW = 1_614_265_330_000;
const BODY = Buffer.from('{"test": 2432232314}');
const SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

const OTHER_SECRET = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;
const keys = (...secrets: string[]) => secrets.map(parseSigningSecret);
const signed = (...secrets: string[]) =>
  signWebhook(keys(...secrets), { id: ID, now: NOW, body: BODY });

describe("signing", () => {
  it("agrees with the specification's vector", () => {
    expect(signed(SECRET)).toEqual({
      "webhook-id": ID,
      "webhook-timestamp": "1614265330",
      "webhook-signature": SIGNATURE,
    });
  });

  it("signs once with each secret while they rotate", () => {
    const signatures = signed(OTHER_SECRET, SECRET)["webhook-signature"].split(" ");
    expect(signatures).toHaveLength(2);
    expect(signatures[1]).toBe(SIGNATURE);
  });

  it.each(["", "a.b"])("refuses the id %j", (id) => {
    expect(() => signWebhook(keys(SECRET), { id, now: NOW, body: BODY })).toThrow("without a dot");
  });

  it("refuses to sign without a key", () => {
    expect(() => signed()).toThrow("needs a key");
  });
});

describe("a secret", () => {
  it("may omit its prefix", () => {
    expect(parseSigningSecret(SECRET)).toEqual(parseSigningSecret(SECRET.slice(6)));
  });

  it.each([
    "",
    "whsec_",
    "whsec_c2hvcnQ=",
    `whsec_${Buffer.alloc(65).toString("base64")}`,
    "whsec_!!!!",
  ])("is not %j, and the message does not repeat it", (secret) => {
    expect(() => parseSigningSecret(secret)).toThrow(
      "signing secret must be whsec_ followed by the base64 of 24 to 64 bytes",
    );
  });
});

describe("verifying", () => {
  const received = (headers: Record<string, string | string[] | undefined> = {}, body = BODY) => ({
    headers: { ...signed(SECRET), ...headers },
    body,
  });

  it("accepts a signed body, also as a string", () => {
    expect(verifyWebhook(SECRET, received(), NOW)).toEqual({ ok: true, id: ID });
    expect(verifyWebhook(SECRET, { ...received(), body: BODY.toString() }, NOW).ok).toBe(true);
  });

  it("finds the right one of several signatures, whatever their version", () => {
    const list = `v1,AAAA v1a,xyz v2,${SIGNATURE.slice(3)} ${SIGNATURE}`;
    expect(verifyWebhook(SECRET, received({ "webhook-signature": list }), NOW).ok).toBe(true);
  });

  it("accepts either secret of a rotation", () => {
    const webhook = { headers: { ...signed(OTHER_SECRET, SECRET) }, body: BODY };
    expect(verifyWebhook(SECRET, webhook, NOW).ok).toBe(true);
    expect(verifyWebhook(OTHER_SECRET, webhook, NOW).ok).toBe(true);
  });

  it("accepts a signature with any of several secrets, and with no other one", () => {
    const third = `whsec_${Buffer.alloc(24, 9).toString("base64")}`;
    expect(verifyWebhook([OTHER_SECRET, SECRET], received(), NOW)).toEqual({ ok: true, id: ID });
    expect(verifyWebhook([OTHER_SECRET, third], received(), NOW)).toEqual({
      ok: false,
      refusal: "mismatch",
    });
  });

  it.each([
    [{ "webhook-id": undefined }, "missing-header"],
    [{ "webhook-timestamp": undefined }, "missing-header"],
    [{ "webhook-signature": undefined }, "missing-header"],
    [{ "webhook-signature": ["a", "b"] }, "missing-header"],
    [{ "webhook-timestamp": "hello" }, "bad-timestamp"],
    [{ "webhook-timestamp": "1614265330.5" }, "bad-timestamp"],
    [{ "webhook-signature": "v1,dawfeoifkpqwoekfpqoekf" }, "mismatch"],
    [{ "webhook-signature": SIGNATURE.slice(0, 8) }, "mismatch"],
    [{ "webhook-signature": "v1," }, "mismatch"],
    [{ "webhook-signature": `v2,${SIGNATURE.slice(3)}` }, "mismatch"],
    [{ "webhook-id": "msg_other" }, "mismatch"],
    [{ "webhook-timestamp": "1614265331" }, "mismatch"],
  ] as const)("refuses %j as %s", (headers, refusal) => {
    const changed = { ...headers } as Record<string, string | string[] | undefined>;
    expect(verifyWebhook(SECRET, received(changed), NOW)).toEqual({ ok: false, refusal });
  });

  it("tolerates five minutes in both directions, and not a second more", () => {
    expect(verifyWebhook(SECRET, received(), NOW + 300_000).ok).toBe(true);
    expect(verifyWebhook(SECRET, received(), NOW - 300_000).ok).toBe(true);
    expect(verifyWebhook(SECRET, received(), NOW + 300_001)).toEqual({
      ok: false,
      refusal: "too-old",
    });
    expect(verifyWebhook(SECRET, received(), NOW - 300_001)).toEqual({
      ok: false,
      refusal: "too-new",
    });
  });

  it("accepts exactly the signed bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.uint8Array(), (body, other) => {
        const headers = { ...signWebhook(keys(SECRET), { id: ID, now: NOW, body }) };
        const same = Buffer.compare(body, other) === 0;
        expect(verifyWebhook(SECRET, { headers, body }, NOW).ok).toBe(true);
        expect(verifyWebhook(SECRET, { headers, body: other }, NOW).ok).toBe(same);
      }),
    );
  });
});
