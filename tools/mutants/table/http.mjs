/** HTTP: mutants of access control, cursors and limits. */
import { inService } from "../mutant.mjs";

const ACCESS = ["test/http/access.test.ts"];
const DIRECT = ["test/http/direct-create.test.ts"];
const KEY_LIMITS = ["test/http/key-limits.test.ts"];

export const http = [
  inService("http/access.ts", [
    {
      name: "a key without the scope of a route is accepted",
      search: 'if (caller.scopes.has(scope) || caller.scopes.has("admin")) return caller;',
      replace: "return caller;",
      tests: ACCESS,
    },
    {
      name: "a page of another origin may write",
      search: 'if (isForeign || headers["sec-fetch-site"] === "cross-site") {',
      replace: "if (false) {",
      tests: ACCESS,
    },
    {
      name: "any Host header is accepted on loopback",
      search: "if (!isLoopback && this.#hosts.size === 0) return;",
      replace: "if (this.#hosts.size === 0) return;",
      tests: ACCESS,
    },
    {
      name: "a key has no rate",
      search: "    this.#checkRate(record);\n",
      replace: "",
      tests: KEY_LIMITS,
    },
    {
      name: "a key may have any number of concurrent requests",
      search: "    this.#checkUnderWay(record, response);\n",
      replace: "",
      tests: KEY_LIMITS,
    },
    {
      name: "a request that ended still counts as concurrent",
      search: "      else this.#underWay.delete(keyId);\n",
      replace: "",
      tests: KEY_LIMITS,
    },
  ]),
  inService("http/direct-creates.ts", [
    {
      name: "a create does not pass the hooks of the host program",
      search: "if (!SERVER_HOOKS.has(hook[0])) turnOff();",
      replace: "",
      tests: DIRECT,
    },
    {
      name: "a hook of the server turns the direct path off",
      search: "if (!SERVER_HOOKS.has(hook[0])) turnOff();",
      replace: "turnOff();",
      tests: DIRECT,
    },
  ]),
  inService("http/direct-creates.ts", [
    {
      name: "a replayed create is reported as a new task",
      search: "accepted === undefined || accepted.replayed",
      replace: "accepted === undefined",
      tests: DIRECT,
    },
    {
      name: "a create ignores the targets of its key",
      search:
        "if (isObject(input)) assertKeyTargets(limits.targets, [input.targetUrl, input.callbackUrl]);",
      replace: "",
      tests: DIRECT,
    },
  ]),
  inService("http/access.ts", [
    {
      name: "an expired key is accepted",
      search: "now < (record.expiresAt ?? Number.POSITIVE_INFINITY)",
      replace: "true",
    },
    {
      name: "a key with another secret is accepted",
      search: "  return isRight && isLive ? record : undefined;\n}\n",
      replace: "  return isLive ? record : undefined;\n}\n",
    },
    {
      name: "a revoked key is accepted until a restart",
      search: "if (clock.monotonicMs() - loadedMs >= REFRESH_MS) refresh();",
      replace: "",
      tests: ACCESS,
    },
  ]),
  inService("http/list-query.ts", [
    {
      name: "a cursor of another tenant is accepted",
      search: "redrive cursor\\n${tenantId}\\n${list}",
      replace: "redrive cursor\\n${list}",
    },
    {
      name: "a cursor of another list is accepted",
      search: "redrive cursor\\n${tenantId}\\n${list}",
      replace: "redrive cursor\\n${tenantId}",
    },
  ]),
  inService("http/http-context.ts", [
    {
      name: "a full queue accepts tasks",
      search: "if (cached.waiting < maxWaiting) return;",
      replace: "return;",
      tests: [...KEY_LIMITS, "test/http/limits.test.ts"],
    },
    {
      name: "running tasks do not count as waiting",
      search: "cached.waiting = PENDING + IN_FLIGHT;",
      replace: "cached.waiting = PENDING;",
      tests: [...KEY_LIMITS, "test/http/limits.test.ts"],
    },
  ]),
  inService("http/create-request.ts", [
    {
      name: "a header and a field with different keys are accepted",
      search: "own !== undefined && given !== undefined && own !== given",
      replace: "false",
    },
    {
      name: "a caller may wait for any time",
      search: "Math.min(MAX_WAIT_SECONDS, Number(seconds))",
      replace: "Number(seconds)",
    },
  ]),
  inService("http/create-routes.ts", [
    {
      name: "a loop of services is not refused in a batch",
      search: "const hops = assertNoLoop(request.headers);\n  const count",
      replace: "const hops = 0;\n  const count",
      tests: ["test/http/hops.test.ts"],
    },
    {
      name: "the key of a batch is ignored",
      search: 'if (request.headers["idempotency-key"] !== undefined) throw keyOnBatch();',
      replace: "",
      tests: ["test/http/idempotency.test.ts"],
    },
    {
      name: "a key that is limited to some targets may call back anywhere",
      search:
        "if (isObject(input)) assertKeyTargets(limits.targets, [input.targetUrl, input.callbackUrl]);",
      replace: "if (isObject(input)) assertKeyTargets(limits.targets, [input.targetUrl]);",
      tests: KEY_LIMITS,
    },
  ]),
  inService("http/connection-limits.ts", [
    {
      name: "a client that reads nothing is never disconnected",
      search: "else if (nowMs - reader.atMs >= this.#timeoutMs) socket.destroy();",
      replace: "",
    },
    {
      name: "a client that waits for its response is disconnected",
      search: "socket.writableLength === 0 || progress !== reader.progress",
      replace: "progress !== reader.progress",
    },
    {
      name: "a part of a long write is no progress",
      search: " - (handle?.writeQueueSize ?? 0)",
      replace: "",
    },
  ]),
  inService("http/connection-limits.ts", [
    {
      name: "an address may have any number of connections",
      search: "if (count >= this.#max) return undefined;",
      replace: "",
    },
    {
      name: "every address of an IPv6 network has its own limit",
      search: "bytes.slice(0, NETWORK_BYTES).join",
      replace: "bytes.join",
    },
  ]),
  inService("http/connection-limits.ts", [
    {
      name: "a connection may send any number of requests ahead",
      search: "pipeline.waiting.length >= MAX_WAITING || this.#waiting >= MAX_WAITING_IN_ALL",
      replace: "false",
    },
    {
      name: "waiting requests never start",
      search: "      this.#startWaiting(pipeline);\n",
      replace: "",
    },
  ]),
].flat();
