/**
 * Tests of Redis servers that refuse messages or break the rules: the attempt ends as expected and in
 * time, at most one message was sent, and the next message to the same server succeeds.
 */
import type { Socket } from "node:net";
import { afterAll, describe, expect, it } from "vitest";
import { AMPLE, bodyOf, brief, requestTo, testDeliverer } from "./deliverer.testing.ts";
import { flood } from "./hostile-server.testing.ts";
import { honestReply, type RedisConduct, redisTestServer } from "./redis-server.testing.ts";

const deliverer = testDeliverer();
afterAll(() => deliverer.close());

const SHORT = { attemptTimeoutMs: 600, connectTimeoutMs: 300 };

interface Row {
  readonly does: string;
  /** To the command in question: the first XADD, unless `to` names another. */
  readonly reply: string | ((socket: Socket) => void);
  readonly to?: string;
  readonly expected: string;
  readonly isLate?: boolean;
}

const INVALID = "error protocol the target's response is not valid RESP";
const refused = (word: string) => `the broker refused the message (${word})`;

const ERRORS: readonly Row[] = (
  [
    ["OOM command not allowed when used memory > 'maxmemory'.", 8, "OOM"],
    ["MISCONF Redis is configured to save RDB snapshots", 14, "MISCONF"],
    ["READONLY You can't write against a read only replica.", 14, "READONLY"],
    ["LOADING Redis is loading the dataset in memory", 14, "LOADING"],
    ["NOREPLICAS Not enough good replicas to write.", 14, "NOREPLICAS"],
    ["BUSY Redis is busy running a script.", 14, "BUSY"],
    ["CLUSTERDOWN The cluster is down", 14, "CLUSTERDOWN"],
    ["TRYAGAIN Multiple keys request during rehashing of slot", 14, "TRYAGAIN"],
    ["MOVED 3999 127.0.0.1:6381", 9, "MOVED"],
    ["WRONGTYPE Operation against a key holding the wrong kind of value", 9, "WRONGTYPE"],
    ["NOAUTH Authentication required.", 16, "NOAUTH"],
    ["NOPERM this user has no permissions", 7, "NOPERM"],
    ["ERR unknown command 'XADD'", 12, "ERR"],
    ["ERR something else", 2, "ERR"],
  ] as const
).map(([text, status, word]) => ({
  does: `replies ${word} (${text.slice(0, 20)})`,
  reply: `-${text}\r\n`,
  expected: `grpc ${status} ${refused(word)}`,
}));

const LOGINS: readonly Row[] = [
  {
    does: "refuses the password",
    to: "AUTH",
    reply: "-WRONGPASS invalid username-password pair\r\n",
    expected: `grpc 16 ${refused("WRONGPASS")}`,
  },
  {
    does: "has no password",
    to: "AUTH",
    reply: "-ERR AUTH <password> called without any password configured\r\n",
    expected: `grpc 16 ${refused("ERR")}`,
  },
  {
    does: "is loading",
    to: "PING",
    reply: "-LOADING Redis is loading the dataset in memory\r\n",
    expected: `grpc 14 ${refused("LOADING")}`,
  },
  {
    does: "has too many clients",
    to: "AUTH",
    reply: "-ERR max number of clients reached\r\n",
    expected: `grpc 8 ${refused("ERR")}`,
  },
];

/** Connections on which the server says nothing any more. */
const silenced = new WeakSet<Socket>();

const FAILURES: readonly Row[] = [
  {
    does: "is a web server",
    to: "AUTH",
    reply: "HTTP/1.1 400 Bad Request\r\n\r\n",
    expected: `${INVALID} (it sends something else)`,
  },
  {
    does: "greets as another server does",
    to: "PING",
    reply: "+OK ready\r\n",
    expected: `${INVALID} (it does not reply as Redis does)`,
  },
  {
    does: "sends a list",
    reply: "*2\r\n+a\r\n+b\r\n",
    expected: `${INVALID} (it sends a list)`,
  },
  {
    does: "replies without the id of an entry",
    reply: "+OK\r\n",
    expected: `${INVALID} (it replies without the id of an entry)`,
  },
  {
    does: "declares 500 MiB",
    reply: "$524288000\r\n",
    expected: `${INVALID} (a reply is too long)`,
  },
  {
    does: "declares a length that is no number",
    reply: "$x\r\n",
    expected: `${INVALID} (a reply is too long)`,
  },
  {
    does: "sends a line for ever",
    reply: (socket) => flood(socket, `+${"x".repeat(10_000)}`),
    expected: `${INVALID} (a reply is too long)`,
  },
  {
    does: "sends errors for ever",
    reply: (socket) => flood(socket, "-ERR no\r\n".repeat(1000)),
    expected: `grpc 2 ${refused("ERR")}`,
  },
  {
    does: "closes the connection",
    reply: (socket) => void socket.destroy(),
    expected: "error reset the target closed the connection before its response was complete",
  },
  {
    does: "closes the connection at the login",
    to: "AUTH",
    reply: (socket) => void socket.destroy(),
    expected: "error connect no connection to the target",
  },
  {
    does: "says nothing at the login",
    to: "AUTH",
    reply: (socket) => void silenced.add(socket),
    expected: "error connect no connection to the target (UND_ERR_CONNECT_TIMEOUT)",
    isLate: true,
  },
  {
    does: "says nothing after the login",
    to: "PING",
    reply: () => {},
    expected: "error connect no connection to the target (UND_ERR_CONNECT_TIMEOUT)",
    isLate: true,
  },
  {
    does: "never replies",
    reply: () => {},
    expected: "error timeout no complete response in time (600 ms)",
    isLate: true,
  },
];

const LOGIN = { authorization: `Basic ${Buffer.from("app:hunter22").toString("base64")}` };

describe("a Redis server that", () => {
  it.each([...ERRORS, ...LOGINS, ...FAILURES])("$does", async (row) => {
    const { reply, to = "XADD", expected, isLate = false } = row;
    let replies = 0;
    const conduct: RedisConduct = (command, socket) => {
      if (silenced.has(socket)) return undefined;
      if (command[0] !== to || replies > 0) return honestReply(command);
      replies++;
      if (typeof reply === "string") return reply;
      reply(socket);
      return undefined;
    };
    const server = await redisTestServer(conduct);
    const adds = () => server.commands.filter(([name]) => name === "XADD").length;
    const request = requestTo(server.url(), { headers: LOGIN });
    const result = await deliverer.deliver(request, isLate ? SHORT : AMPLE);
    const message = result.errorMessage?.replace(" (ECONNRESET)", "") ?? [];
    expect([brief(result), message].flat().join(" ")).toBe(expected);
    expect(adds()).toBe(to === "XADD" ? 1 : 0);
    const { outcome } = result;
    if (outcome.kind === "error") expect(outcome.sent).toBe(to === "XADD");

    const next = await deliverer.deliver(request, AMPLE);
    expect([brief(next), bodyOf(next)]).toEqual(["success 0", "1-1"]);
    await server.close();
  });

  it("may not be asked with PING accepts messages", async () => {
    const server = await redisTestServer((command) =>
      command[0] === "PING" ? "-NOPERM this user has no permissions\r\n" : honestReply(command),
    );
    const result = await deliverer.deliver(requestTo(server.url()), AMPLE);
    expect(brief(result)).toBe("success 0");
    await server.close();
  });

  it("sends the password back does not put it into the log", async () => {
    const server = await redisTestServer((command) =>
      command[0] === "XADD" ? "-ERR hunter22 is the password\r\n" : honestReply(command),
    );
    const result = await deliverer.deliver(requestTo(server.url(), { headers: LOGIN }), AMPLE);
    expect(bodyOf(result)).toBe("ERR *** is the password");
    await server.close();
  });

  it("does not know AUTH does not put the start of a long password into the log", async () => {
    const password = "0123456789".repeat(30);
    const server = await redisTestServer(([name, ...args]) =>
      name === "AUTH"
        ? `-ERR unknown command 'AUTH', with args beginning with: '${args.join("' '").slice(0, 128)}\r\n`
        : honestReply([name ?? ""]),
    );
    const authorization = `Basic ${Buffer.from(`app:${password}`).toString("base64")}`;
    const request = requestTo(server.url(), { headers: { authorization } });
    const result = await deliverer.deliver(request, AMPLE);
    expect(brief(result)).toBe("grpc 12");
    expect(JSON.stringify(result)).not.toContain("0123");
    expect(bodyOf(result)).toBe("");
    await server.close();
  });
});
