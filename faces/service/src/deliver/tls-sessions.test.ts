/** Tests of kept TLS sessions. */
import { describe, expect, it } from "vitest";
import { createTlsSessions } from "./tls-sessions.ts";

describe("TLS sessions", () => {
  it("are kept by target, the latest of each", () => {
    const sessions = createTlsSessions();
    sessions.set("a", Buffer.from("1"));
    sessions.set("a", Buffer.from("2"));
    expect([sessions.get("a")?.toString(), sessions.get("b")]).toEqual(["2", undefined]);
  });

  it("are at most 256: the oldest gives way", () => {
    const sessions = createTlsSessions();
    for (let n = 0; n < 256; n++) sessions.set(String(n), Buffer.of(0));
    sessions.set("0", Buffer.of(1));
    sessions.set("one more", Buffer.of(0));
    expect([sessions.get("0"), sessions.get("1")]).toEqual([Buffer.of(1), undefined]);
  });
});
