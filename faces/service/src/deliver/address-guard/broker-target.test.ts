/** Tests of URLs of brokers: what they name, and what is refused with which message. */
import { describe, expect, it } from "vitest";
import { parseAllowlist } from "./allowlist.ts";
import { checkTarget } from "./target.ts";
import { createTargetPolicy } from "./target-policy.ts";

const PUBLIC = createTargetPolicy();
/** The port of Redis is open only where an entry names it. */
const REDIS = createTargetPolicy({ allow: parseAllowlist("redis.example:6379") });

function placeOf(url: string) {
  const target = checkTarget(url, REDIS);
  return target.ok ? target.broker?.place : target.message;
}

describe("a target of RabbitMQ", () => {
  it("has a normalized host, a virtual host, and the port of AMQP if it names none", () => {
    expect(checkTarget("AMQP://Rabbit.Example?queue=orders", PUBLIC)).toEqual({
      ok: true,
      url: "amqp://rabbit.example/?queue=orders",
      origin: "amqp://rabbit.example",
      path: "/?queue=orders",
      grpc: undefined,
      broker: {
        endpoint: { name: "rabbit.example", port: 5672, isTls: false },
        place: { kind: "amqp", virtualHost: "/", exchange: "", routingKey: "orders" },
      },
    });
    expect(checkTarget("amqps://[2606:4700::1]/shop?exchange=e", PUBLIC)).toMatchObject({
      origin: "amqps://[2606:4700::1]",
      broker: {
        endpoint: { name: "2606:4700::1", port: 5671, isTls: true },
        place: { virtualHost: "shop", exchange: "e", routingKey: "" },
      },
    });
  });

  it.each([
    ["amqp://a.example:5672/?queue=q", "amqp://a.example", 5672],
    ["amqp://a.example:80/?queue=q", "amqp://a.example:80", 80],
    ["amqps://a.example:443?queue=q", "amqps://a.example:443", 443],
    ["amqps://a.example:5672/?queue=q", "amqps://a.example:5672", 5672],
    ["amqp://a.example:/?queue=q", "amqp://a.example", 5672],
  ])("%s has the origin %s", (url, origin, port) => {
    expect(checkTarget(url, PUBLIC)).toMatchObject({ origin, broker: { endpoint: { port } } });
  });

  it.each([
    ["amqp://a.example/?exchange=orders&routingKey=new.eu", "/", "orders", "new.eu"],
    ["amqp://a.example/%2F?exchange=a%20b&routingKey=%23", "/", "a b", "#"],
    ["amqp://a.example/b%C3%BCcher?queue=a+b", "bücher", "", "a b"],
  ])("%s names its place", (url, virtualHost, exchange, routingKey) => {
    expect(placeOf(url)).toEqual({ kind: "amqp", virtualHost, exchange, routingKey });
  });

  it.each([
    ["", "must have a parameter exchange or a parameter queue"],
    ["?routingKey=k", "must have a parameter exchange or a parameter queue"],
    ["?queue=q&exchange=e", "must have a parameter exchange or a parameter queue"],
    ["?queue=q&routingKey=k", "must have no parameter routingKey beside queue"],
    ["?queue=", 'queue must be 1 to 255 bytes of text, got ""'],
    [`?queue=${"ü".repeat(128)}`, "queue must be 1 to 255 bytes of text"],
    ["?exchange=%FF", "exchange must be 1 to 255 bytes of text"],
    ["?exchange=e&routingKey=%00", "routingKey must be 1 to 255 bytes of text"],
    ["?queue=q&queue=r", "has the parameter queue twice"],
    ["?queu=q", 'unknown parameter "queu", did you mean queue?'],
    ["?exchange=e&routing_key=k", 'unknown parameter "routing_key", did you mean routingKey?'],
    ["?ttl=7", 'unknown parameter "ttl": it may have exchange, routingKey, queue'],
    ["/a/b?queue=q", 'must have a virtual host as path, with / written as %2F, got "/a/b"'],
    ["/%FF?queue=q", "must have a virtual host as path"],
    ["?queue=orders#1", "must have no fragment: write # as %23"],
  ])("refuses %s", (rest, message) => {
    expect(placeOf(`amqp://a.example${rest}`)).toContain(message);
  });

  it("refuses a password in the URL, and says where it belongs", () => {
    expect(checkTarget("amqp://guest:guest@a.example/?queue=q", PUBLIC)).toEqual({
      ok: false,
      kind: "malformed",
      message:
        "targetUrl must have no user or password, because URLs are shown: use the header Authorization: Basic with the Base64 of user:password",
    });
  });
});

describe("a target of Redis", () => {
  const url = (rest: string) => `redis-stream://redis.example${rest}`;

  it.each([
    ["?stream=orders", { database: 0, stream: "orders", maxLen: undefined, creates: true }],
    ["/3?stream=a%3Ab&maxLen=1000", { database: 3, stream: "a:b", maxLen: 1000, creates: true }],
    ["/?stream=s&create=false", { database: 0, stream: "s", maxLen: undefined, creates: false }],
  ])("%s names its place", (rest, place) => {
    expect(placeOf(url(rest))).toEqual({ kind: "redis-stream", ...place });
  });

  it.each([
    ["/0", "must have a parameter stream, such as ?stream=orders"],
    ["/x?stream=s", 'must have the number of a database as path, such as /0, got "/x"'],
    ["/0?stream=", 'stream must be 1 to 512 bytes of text, got ""'],
    ["/0?stream=s&maxLen=0", 'maxLen must be a whole number of at least 1, got "0"'],
    ["/0?stream=s&maxLen=1e3", "maxLen must be a whole number of at least 1"],
    ["/0?stream=s&create=no", 'create must be true or false, got "no"'],
    ["/0?stream=s&maxlen=5", 'unknown parameter "maxlen", did you mean maxLen?'],
  ])("refuses %s", (rest, message) => {
    expect(placeOf(url(rest))).toContain(message);
  });

  it("is denied on the port of Redis, unless an entry names the port", () => {
    const target = "redis-stream://redis.example/0?stream=s";
    expect(checkTarget(target, PUBLIC)).toMatchObject({
      kind: "denied",
      message: "target redis.example is not allowed: see REDRIVE_ALLOW_TARGETS",
    });
    const withoutPort = createTargetPolicy({ allow: parseAllowlist("redis.example") });
    expect(checkTarget(target, withoutPort)).toMatchObject({ kind: "denied" });
    expect(checkTarget(target.replace("redis-", "rediss-"), REDIS)).toMatchObject({
      broker: { endpoint: { name: "redis.example", port: 6379, isTls: true } },
    });
  });
});

describe("brokers in private networks", () => {
  it.each(["127.0.0.1", "0x7f.1", "10.0.0.1", "[::1]", "localhost", "rabbit", "169.254.169.254"])(
    "are denied: %s",
    (host) => {
      for (const target of [`amqp://${host}/?queue=q`, `redis-stream://${host}:7000/?stream=s`]) {
        expect(checkTarget(target, PUBLIC)).toMatchObject({ ok: false, kind: "denied" });
      }
    },
  );
});
