/** Rows 33 and 34 of reliability.md 4B: no secure connection, no attempt; and TLS on the name. */
import { once } from "node:events";
import type { Socket } from "node:net";
import type { SecureVersion, TLSSocket, TlsOptions } from "node:tls";
import { afterAll, describe, expect, it } from "vitest";
import { makeCertificate } from "./certificate.testing.ts";
import { AMPLE, bodyOf, brief, requestTo, SHORT, testDeliverer } from "./deliverer.testing.ts";
import { hostileServer } from "./hostile-server.testing.ts";

const authority = makeCertificate({ name: "Test Authority" });
const good = makeCertificate({ name: "target.example", issuer: authority });
const expired = makeCertificate({
  name: "target.example",
  issuer: authority,
  notBefore: new Date(Date.now() - 9e8),
  notAfter: new Date(Date.now() - 1e8),
});
const otherName = makeCertificate({ name: "other.example", issuer: authority });
const ownSigned = makeCertificate({ name: "target.example" });

const deliverer = testDeliverer({ ca: authority.cert });
afterAll(() => deliverer.close());

async function attempt(tls: TlsOptions, host = "target.example") {
  const server = await hostileServer("", { tls });
  const result = await deliverer.deliver(requestTo(server.url("/honest", host)), AMPLE);
  await server.close();
  return { result, requests: server.requests.length };
}

const OLD: TlsOptions = {
  ...good,
  minVersion: "TLSv1" satisfies SecureVersion,
  maxVersion: "TLSv1.1" satisfies SecureVersion,
  ciphers: "DEFAULT:@SECLEVEL=0",
};

describe("a secure target", () => {
  it("is attempted under its own name, though its address was looked up for it", async () => {
    const { result } = await attempt(good);
    expect([brief(result), bodyOf(result)]).toEqual(["success 200", "honest"]);
    expect(result.phases.tlsMs).not.toBeNull();
  });

  it("may have a dot at the end of its name", async () => {
    expect(brief((await attempt(good, "target.example.")).result)).toBe("success 200");
  });

  it("keeps its session for the next connection", async () => {
    const server = await hostileServer("", { tls: good });
    const url = server.url("/honest", "target.example");
    await deliverer.deliver(requestTo(url), AMPLE);
    const [first] = server.sockets as TLSSocket[];
    expect(first?.isSessionReused()).toBe(false);
    first?.end();
    await once(first!, "close");
    expect(brief(await deliverer.deliver(requestTo(url), AMPLE))).toBe("success 200");
    expect((server.sockets[1] as TLSSocket).isSessionReused()).toBe(true);
    await server.close();
  });

  it.each([
    ["has expired", expired, "CERT_HAS_EXPIRED"],
    ["is signed by itself", ownSigned, "DEPTH_ZERO_SELF_SIGNED_CERT"],
    ["is for another name", otherName, "ERR_TLS_CERT_ALTNAME_INVALID"],
  ])("is refused when its certificate %s (row 33)", async (_what, tls, code) => {
    const { result, requests } = await attempt(tls);
    expect(result.outcome).toEqual({ kind: "error", errorClass: "tls", sent: false });
    expect(result.errorMessage).toContain(code);
    expect(requests).toBe(0);
  });

  it("is refused when it speaks only TLS 1.0 and 1.1 (row 33)", async () => {
    const { result, requests } = await attempt(OLD);
    expect([brief(result), requests]).toEqual(["error tls", 0]);
  });

  it("is refused when it offers HTTP/2 only, and the log says why (row 34)", async () => {
    const { result, requests } = await attempt({ ...good, ALPNProtocols: ["h2"] });
    expect([brief(result), requests]).toEqual(["error tls", 0]);
    expect(result.errorMessage).toContain("it offers no HTTP/1.1");
  });

  it("cannot be unsafe by environment", async () => {
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    try {
      expect(brief((await attempt(ownSigned)).result)).toBe("error tls");
    } finally {
      delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    }
  });

  it("is no secure one when it speaks plain HTTP", async () => {
    const server = await hostileServer("HTTP/1.1 400 Bad Request\r\n\r\n", {
      greet: (socket) =>
        void socket.once("data", () => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n")),
    });
    const url = server.url("/", "target.example").replace("http:", "https:");
    const result = await deliverer.deliver(requestTo(url), AMPLE);
    expect(brief(result)).toBe("error tls");
    expect(result.errorMessage).toContain("it speaks no TLS on this port");
    await server.close();
  });

  it("that never shakes hands is given up in time, socket and all", async () => {
    let greet = (_: Socket) => {};
    // On a busy machine it may come in after it was given up.
    const arrival = new Promise<Socket>((resolve) => {
      greet = resolve;
    });
    const server = await hostileServer("", { greet });
    const url = server.url("/", "target.example").replace("http:", "https:");
    const { connectTimeoutMs } = SHORT;
    const result = await deliverer.deliver(requestTo(url), { ...AMPLE, connectTimeoutMs });
    expect(result.outcome).toEqual({ kind: "error", errorClass: "connect", sent: false });
    expect(result.durationMs).toBeLessThan(AMPLE.connectTimeoutMs);
    const socket = await arrival;
    if (!socket.destroyed) await once(socket, "close");
    expect(brief(await deliverer.deliver(requestTo(url), SHORT))).toMatch(
      /^error (connect|timeout)$/,
    );
    await server.close();
  });
});
