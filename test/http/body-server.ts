/** Body server: a test server with a directory of blobs and two tenants, and how tests call it. */
import { createHash, randomBytes } from "node:crypto";
import { createKey, memoryKeyStore, type Scope } from "@redrive/service/http";
import { BlobFolder } from "./blob-folder.ts";
import { openTestServer, type Sent, type TestResponse, type TestServer } from "./test-server.ts";

const keys = memoryKeyStore();
function keyFor(tenantId: string, ...scopes: Scope[]): string {
  const fill = (bytes: Uint8Array) => bytes.set(randomBytes(bytes.length));
  const { key, record } = createKey(fill, { tenantId, scopes, now: 0 });
  keys.add(record);
  return key;
}
export const ADMIN = keyFor("acme", "admin");
export const CREATOR = keyFor("acme", "tasks:create", "tasks:read");
export const OTHER = keyFor("other", "admin");
/** May read the metrics, which cover every tenant. */
export const OPERATOR = keyFor("default", "admin");

export interface BodyServer {
  readonly server: TestServer;
  readonly folder: BlobFolder;
  as(key: string, sent: Sent): Promise<TestResponse>;
  /** Forwards a body with the policy `quick`: three attempts without a delay. */
  forward(body: Buffer, headers?: Sent["headers"]): Promise<TestResponse>;
  view(taskId: string, query?: string): Promise<TestResponse["json"]>;
  attemptsOf(taskId: string): Promise<TestResponse["json"]>;
  close(): Promise<void>;
}

export async function openBodyServer(maxBodyBytes: number): Promise<BodyServer> {
  const folder = new BlobFolder();
  const encryptionKey = Buffer.alloc(32, 1).toString("base64");
  const server = await openTestServer({ blobs: folder.text, maxBodyBytes, keys, encryptionKey });
  const quick = { policyId: "quick", maxAttempts: 3, initialDelayMs: 1, maxDelayMs: 1 };
  await server.redrive.policies.replace(quick, "acme");
  await server.redrive.policies.replace({ ...quick, policyId: "once", maxAttempts: 1 }, "acme");
  const as = (key: string, sent: Sent) =>
    server.call({ ...sent, headers: { authorization: `Bearer ${key}`, ...sent.headers } });
  const read = async (path: string) => (await as(ADMIN, { method: "GET", path })).json;
  return {
    server,
    folder,
    as,
    forward(body, headers = {}) {
      const defaults = {
        "content-type": "application/x-thing",
        "redrive-target": server.target.url,
        "redrive-policy": "quick",
      };
      return as(ADMIN, { path: "/forward", body, headers: { ...defaults, ...headers } });
    },
    view: (taskId, query = "") => read(`/retry-tasks/${taskId}${query}`),
    attemptsOf: async (taskId) => (await read(`/retry-tasks/${taskId}/attempts`)).attempts,
    async close() {
      await server.close();
      folder.remove();
    },
  };
}

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Contains every byte value, if it is long enough. */
export function bytesOf(length: number): Buffer {
  return Buffer.from(Array.from({ length }, (_, at) => (at * 7) % 256));
}
