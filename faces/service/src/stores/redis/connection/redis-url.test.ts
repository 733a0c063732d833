/** URLs of Redis stores are read completely, and wrong ones are refused by name. */
import { describe, expect, it } from "vitest";
import { addressOf, parseRedisUrl } from "./redis-url.ts";

describe("a Redis URL", () => {
  it("names a server, with defaults", () => {
    expect(parseRedisUrl("redis://localhost")).toEqual({
      kind: "server",
      hosts: [{ host: "localhost", port: 6379 }],
      master: null,
      db: 0,
      username: null,
      password: null,
      isTls: false,
      prefix: "redrive",
      durability: "strict",
      replicas: 0,
      settings: "checked",
    });
  });

  it("has a login, a database and options", () => {
    const url = "rediss://me:p%40ss@[::1]:7000/3?prefix=a:b&durability=relaxed&replicas=2";
    expect(parseRedisUrl(`${url}&settings=trusted`)).toMatchObject({
      hosts: [{ host: "::1", port: 7000 }],
      db: 3,
      username: "me",
      password: "p@ss",
      isTls: true,
      prefix: "a:b",
      durability: "relaxed",
      replicas: 2,
      settings: "trusted",
    });
  });

  it("has a password that may contain an @", () => {
    const target = parseRedisUrl("redis://me:p@ss@w@host:7000/3");
    expect(target).toMatchObject({ username: "me", password: "p@ss@w", db: 3 });
    expect(target.hosts).toEqual([{ host: "host", port: 7000 }]);
  });

  it.each(["redis://me:s3/cret@host", "redis://me:s3?cret@host", "redis://me:s3#/c@ret@host"])(
    "is refused without a part of its password: %s",
    (url) => {
      expect(() => parseRedisUrl(url)).toThrow(/^(?!.*(s3|cret)).*written as %2F and %3F$/u);
    },
  );

  it("names several Sentinels and their master, or nodes of a cluster", () => {
    const sentinel = parseRedisUrl("redis+sentinel://:pw@a:1,b/tasks/2");
    const hosts = [
      { host: "a", port: 1 },
      { host: "b", port: 26_379 },
    ];
    expect(sentinel).toMatchObject({ kind: "sentinel", hosts, master: "tasks", db: 2 });
    expect(sentinel).toMatchObject({ username: null, password: "pw" });
    expect(addressOf(sentinel)).toBe("a:1,b:26379/tasks");
    expect(parseRedisUrl("redis+cluster://a:1,b:2")).toMatchObject({ kind: "cluster", db: 0 });
  });

  it.each([
    ["redis:", /must be redis:/u],
    ["redis://host:0", /got "host:0"/u],
    ["redis://host/x", /db of a Redis URL must be an integer from 0/u],
    ["redis://host/1/2", /too many parts/u],
    ["redis+sentinel://host", /must name the master/u],
    ["redis+cluster://host/1", /only one database/u],
    ["redis://host?durabilty=relaxed", /prefix, durability, replicas, settings, got "durabilty"/u],
    ["redis://host?durability=none", /durability must be strict or relaxed, got "none"/u],
    ["redis://host?replicas=-1", /replicas of a Redis URL must be an integer/u],
    ["redis://host?prefix={a}", /prefix must be 1 to 64 letters/u],
    ["redis://a:%zz@host", /write %25/u],
  ])("is refused: %s", (url, message) => {
    expect(() => parseRedisUrl(url)).toThrow(message);
  });
});
