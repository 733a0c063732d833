/**
 * S3 server for tests: s3rver on loopback, behind a proxy of our own that can fail, delay or drop calls.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

const BUCKET = "bodies";

/** What the proxy does with a call; undefined: it passes the call on. */
export type S3Fault = { readonly status: number } | "hang" | undefined;

export interface S3TestServer {
  /** The text of the blob store. */
  readonly blobs: string;
  /** Decides about each call. */
  fault: (call: { readonly method: string; readonly url: string }) => S3Fault;
  /** The calls so far, as `METHOD path`. */
  readonly calls: string[];
  close(): Promise<void>;
}

/** Credentials that s3rver accepts. The SDK reads them from the environment. */
const ENVIRONMENT = {
  AWS_ACCESS_KEY_ID: "S3RVER",
  AWS_SECRET_ACCESS_KEY: "S3RVER",
  AWS_REGION: "us-east-1",
};

interface Rver {
  run(): Promise<AddressInfo>;
  close(): Promise<void>;
}

export async function startS3(): Promise<S3TestServer> {
  Object.assign(process.env, ENVIRONMENT);
  const directory = mkdtempSync(join(tmpdir(), "redrive-s3rver-"));
  // It has no types.
  const name = "s3rver";
  const { default: S3rver } = (await import(name)) as {
    default: new (options: object) => Rver;
  };
  const server = new S3rver({
    address: "127.0.0.1",
    port: 0,
    silent: true,
    directory,
    configureBuckets: [{ name: BUCKET }],
  });
  const { port } = await server.run();
  const calls: string[] = [];
  const proxy = createServer((incoming, response) => {
    const { method = "", url = "" } = incoming;
    calls.push(`${method} ${url.split("?")[0]}`);
    const fault = started.fault({ method, url });
    if (fault === "hang") incoming.resume();
    else if (fault === undefined) passOn(port, incoming, response);
    else {
      incoming.resume();
      incoming.on("end", () => response.writeHead(fault.status).end());
    }
  });
  await once(proxy.listen(0, "127.0.0.1"), "listening");
  const endpoint = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const started: S3TestServer = {
    blobs: `s3://${BUCKET}/some/prefix?endpoint=${encodeURIComponent(endpoint)}`,
    fault: () => undefined,
    calls,
    async close() {
      proxy.closeAllConnections();
      proxy.close();
      await server.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
  return started;
}

/** With the original Host header, which the signature covers. */
function passOn(port: number, incoming: IncomingMessage, response: ServerResponse): void {
  const { method, url, headers } = incoming;
  const onward = request({ host: "127.0.0.1", port, method, path: url, headers });
  onward.on("response", (answer) => {
    response.writeHead(answer.statusCode ?? 500, answer.headers);
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  incoming.pipe(onward);
}
