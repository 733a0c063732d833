/** Webhooks that others have signed are verified without the service, also where there is no Node. */
import { createContext, runInContext } from "node:vm";
import { verifyWebhook as verifyInService } from "@redrive/service";
import { verifyWebhook } from "redrive/webhooks";
import { Webhook } from "standardwebhooks";
import { describe, expect, test } from "vitest";
import { bundle } from "../size/bundle.ts";

/** The vector of the specification's own libraries (standard-webhooks, `sign function works`). */
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const NOW = 1_614_265_330_000;
const BODY = '{"test": 2432232314}';
const SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

const secretOf = (byte: number) => `whsec_${Buffer.alloc(24, byte).toString("base64")}`;

const received = (more: Record<string, string | undefined> = {}, body: string = BODY) => ({
  headers: {
    "webhook-id": ID,
    "webhook-timestamp": "1614265330",
    "webhook-signature": SIGNATURE,
    ...more,
  },
  body,
});

describe("a webhook", () => {
  test("of the specification is accepted, in every form of its headers and its body", async () => {
    const { headers } = received();
    const bytes = new TextEncoder().encode(BODY);
    for (const body of [BODY, bytes, bytes.buffer as ArrayBuffer, Buffer.from(BODY)]) {
      for (const given of [headers, new Headers(headers)]) {
        const verdict = await verifyWebhook(SECRET, { headers: given, body }, NOW);
        expect(verdict).toEqual({ ok: true, id: ID });
      }
    }
  });

  test("is accepted with any of several secrets, and with any of several signatures", async () => {
    const secrets = [secretOf(1), SECRET, secretOf(2)];
    expect((await verifyWebhook(secrets, received(), NOW)).ok).toBe(true);
    const list = `v1,AAAA v1a,xyz v2,${SIGNATURE.slice(3)} ${SIGNATURE}`;
    expect((await verifyWebhook(SECRET, received({ "webhook-signature": list }), NOW)).ok).toBe(
      true,
    );
  });

  test.each<[Record<string, string | undefined>, string]>([
    [{ "webhook-id": undefined }, "missing-header"],
    [{ "webhook-timestamp": "hello" }, "bad-timestamp"],
    [{ "webhook-timestamp": "1614265029" }, "too-old"],
    [{ "webhook-timestamp": "1614265631" }, "too-new"],
    [{ "webhook-timestamp": "1614265331" }, "mismatch"],
    [{ "webhook-id": "msg_other" }, "mismatch"],
    [{ "webhook-signature": "v1," }, "mismatch"],
    [{ "webhook-signature": `${SIGNATURE}A` }, "mismatch"],
    [{ "webhook-signature": SIGNATURE.slice(0, -1) }, "mismatch"],
    [{ "webhook-signature": `v2,${SIGNATURE.slice(3)}` }, "mismatch"],
  ])("with %j is refused as %s, here and in the service", async (headers, refusal) => {
    const webhook = received(headers);
    const verdict = { ok: false, refusal };
    expect(await verifyWebhook(SECRET, webhook, NOW)).toEqual(verdict);
    // The service reads base64 without its padding, too.
    if (webhook.headers["webhook-signature"] === SIGNATURE) {
      expect(verifyInService(SECRET, webhook, NOW)).toEqual(verdict);
    }
  });

  test("with another body, or with none of the secrets, is refused", async () => {
    const mismatch = { ok: false, refusal: "mismatch" };
    expect(await verifyWebhook(SECRET, received({}, `${BODY} `), NOW)).toEqual(mismatch);
    const others = [secretOf(1), secretOf(2)];
    expect(await verifyWebhook(others, received(), NOW)).toEqual(mismatch);
  });

  test("of the standardwebhooks package is accepted now, and by the service", async () => {
    const body = '{"type":"order.paid","note":"\u00e9\u{1f4b3}"}';
    const at = new Date();
    const signature = new Webhook(SECRET).sign("msg_1", at, body);
    const headers = {
      "webhook-id": "msg_1",
      "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
      "webhook-signature": signature,
    };
    expect(await verifyWebhook(SECRET, { headers, body })).toEqual({ ok: true, id: "msg_1" });
    expect(verifyInService([secretOf(1), SECRET], { headers, body }, at.getTime()).ok).toBe(true);
  });
});

test.each([
  ["no secret", []],
  ["an empty secret", ""],
  ["a short secret", "whsec_c2hvcnQ="],
  ["a malformed one of several", [SECRET, "whsec_!!!!"]],
])("%s is an error that does not quote it", async (_, secrets) => {
  const error = await verifyWebhook(secrets, received(), NOW).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({
    code: "INVALID_ARGUMENT",
    message: "signing secret must be whsec_ followed by the base64 of 24 to 64 bytes",
  });
});

test("it works in a worker, which has Web Crypto and neither Buffer nor process", async () => {
  const { code, imports } = await bundle('export { verifyWebhook } from "redrive/webhooks";');
  expect(imports).toEqual([]);
  const script = code.replace(/export\s*\{\s*(\w+) as verifyWebhook\s*\};?\s*$/u, "($1)");
  expect(script).not.toBe(code);
  const names = ["crypto", "TextEncoder", "Uint8Array", "btoa", "atob"] as const;
  const worker = createContext(Object.fromEntries(names.map((name) => [name, globalThis[name]])));
  const verify: typeof verifyWebhook = runInContext(script, worker);
  expect(await verify(SECRET, received(), NOW)).toEqual({ ok: true, id: ID });
  expect((await verify(secretOf(1), received(), NOW)).ok).toBe(false);
});
