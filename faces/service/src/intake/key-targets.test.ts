/** Tests of the targets of an API key: the host and the port of a URL must be in its list. */
import { describe, expect, it } from "vitest";
import { assertKeyTargets } from "./task-intake.ts";

const LIST = "hooks.example.com, rabbit.example.com:5672, redis.example.com:6379, 10.0.0.0/8:8080";

describe("a key with a list of targets", () => {
  it.each([
    "https://hooks.example.com/a",
    "http://HOOKS.example.com.:8080/",
    "amqp://rabbit.example.com/?queue=q",
    "amqp://rabbit.example.com:5672/?queue=q",
    "redis-stream://redis.example.com/0?stream=s",
    "http://10.1.2.3:8080/",
  ])("may send to %s", (url) => {
    expect(() => assertKeyTargets(LIST, [url])).not.toThrow();
  });

  it.each([
    ["https://example.com/", "example.com"],
    ["amqps://rabbit.example.com/?queue=q", "rabbit.example.com"],
    ["amqp://rabbit.example.com:80/?queue=q", "rabbit.example.com:80"],
    ["redis-stream://redis.example.com:6380/0?stream=s", "redis.example.com:6380"],
    ["http://10.1.2.3/", "10.1.2.3"],
    ["grpc://0xa.1.2.3:8081/a.B/C", "10.1.2.3:8081"],
  ])("may not send to %s", (url, host) => {
    const allowed = "https://hooks.example.com/";
    expect(() => assertKeyTargets(LIST, [allowed, url])).toThrow(
      `this API key may not send to ${host}`,
    );
  });

  it("leaves malformed URLs to another check, and a key without a list may send to all", () => {
    expect(() => assertKeyTargets(LIST, ["gopher://example.com", 17, undefined])).not.toThrow();
    expect(() => assertKeyTargets(undefined, ["https://example.com/"])).not.toThrow();
  });
});
