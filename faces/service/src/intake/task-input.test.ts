/** Tests of task input: what is rejected, and with which messages. */
import { describe, expect, it } from "vitest";
import { withPlainHeaders } from "../model/headers-input.ts";
import { fingerprintParts } from "./fingerprint.ts";
import { createTask, type TaskInput } from "./task-input.ts";

const NOW = 1_800_000_000_000;
const url = "https://example.com/hook?a=1";

function make(input: Partial<TaskInput>) {
  return createTask(withPlainHeaders({ targetUrl: url, ...input }), {
    tenantId: "acme",
    taskId: "task-1",
    now: NOW,
    policyId: "background",
    policyVersion: 1,
    checkTarget: (text) =>
      text.startsWith("https:")
        ? {
            ok: true,
            url: text,
            origin: new URL(text).origin,
            path: "/hook",
            grpc: undefined,
            broker: undefined,
          }
        : { ok: false, kind: "malformed", message: "targetUrl must begin with https://" },
  });
}

const text = (body: Uint8Array | null) => (body === null ? null : new TextDecoder().decode(body));

describe("a task to create", () => {
  it("needs a target and nothing else", () => {
    expect(make({})).toMatchObject({
      destination: "https://example.com",
      method: "POST",
      body: null,
      idempotent: true,
      scheduledAt: NOW,
      deadlineAt: null,
      idempotencyKey: null,
    });
  });

  it("copies the body: a buffer that its caller reuses changes no attempt", () => {
    const body = Buffer.from("first");
    const headers = { "x-order": "17" };
    const labels = { team: "shop" };
    const task = make({ body, headers, labels });
    body.fill("x");
    headers["x-order"] = "18";
    labels.team = "other";
    expect(text(task.body)).toBe("first");
    expect(task).toMatchObject({ headers: { "x-order": "17" }, labels: { team: "shop" } });
  });

  it("accepts its body as a string, bytes, Base64 or JSON", () => {
    expect(text(make({ body: "ä" }).body)).toBe("ä");
    expect(make({ body: new Uint8Array([0, 1]) }).body).toEqual(new Uint8Array([0, 1]));
    expect(text(make({ bodyBase64: "YWI=" }).body)).toBe("ab");
    const task = make({ json: { a: null } });
    expect([text(task.body), task.headers["content-type"]]).toEqual([
      '{"a":null}',
      "application/json",
    ]);
    expect(make({ json: 1, headers: { "Content-Type": "x/y" } }).headers).toEqual({
      "Content-Type": "x/y",
    });
  });

  it.each<[string, object]>([
    ["unknown field", { targeturl: url }],
    ["targetUrl must", { targetUrl: "ftp://x" }],
    ["header", { headers: { a: "b\r\nc: d" } }],
    ["header", { headers: { "a b": "c" } }],
    ["bodyBase64 must", { bodyBase64: "not base 64!" }],
    ["bodyRef must", { bodyRef: "../other" }],
    ["bodyRef must", { bodyRef: 7 }],
    ["only one of", { body: "x", bodyRef: "y" }],
    ["only one of", { body: "x", bodyBase64: "YWI=" }],
    ["idempotencyKey must", { idempotencyKey: "" }],
    ["scheduledAt must", { scheduledAt: NOW + 366 * 86_400_000 }],
    ["deadlineAt must", { deadlineAt: NOW - 1 }],
    ["deadlineAt must", { scheduledAt: NOW + 1000, deadlineAt: NOW + 500 }],
    ["callbackUrl must", { callbackUrl: "ftp://x" }],
    ["GET", { method: "GET", body: "x" }],
    ["HEAD", { method: "HEAD", body: "x" }],
    ["policy and policyId must not both be given", { policyId: "read", policy: {} }],
    ["labels must", { labels: { a: 1 } }],
    ["labels must", { labels: new Map([["team", "shop"]]) }],
    ["headers must", { headers: new Date(0) }],
  ])("is refused: %s", (message, fields) => {
    expect(() => make(fields as Partial<TaskInput>)).toThrow(message);
  });

  it("is due now if it was due in the past", () => {
    expect(make({ scheduledAt: NOW - 1000 }).scheduledAt).toBe(NOW);
  });

  it("has a fingerprint that the order of headers does not change", () => {
    const print = (headers: Record<string, string>) => String(fingerprintParts(make({ headers })));
    expect(print({ "x-a": "1", "x-b": "2" })).toBe(print({ "x-b": "2", "x-a": "1" }));
  });

  it("has a fingerprint that trace context does not change and everything else does", () => {
    const print = (input: Partial<TaskInput>) => String(fingerprintParts(make(input)));
    const base = print({ body: "a", headers: { "X-A": "1" } });
    expect(print({ body: "a", headers: { "x-a": "1", traceparent: "00-1", Date: "now" } })).toBe(
      base,
    );
    expect(print({ body: "b", headers: { "X-A": "1" } })).not.toBe(base);
    expect(print({ body: "a", headers: { "X-A": "2" } })).not.toBe(base);
    expect(print({ body: "a", headers: { "X-A": "1" }, method: "PUT" })).not.toBe(base);
  });
});
