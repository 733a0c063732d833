/**
 * Redis URL: where a Redis store is, and its options. The forms are:
 *
 * - `redis://[user:password@]host[:port][/db]`, and `rediss://` for TLS
 * - `redis+sentinel://[user:password@]host1:port1,host2:port2/masterName[/db]`
 * - `redis+cluster://[user:password@]host1:port1,host2:port2`; both also with `rediss+`
 *
 * Options follow as query parameters: `prefix`, `durability`, `replicas`, `settings`.
 */
import { causedError, RedriveError } from "@redrive/core";

export interface RedisTarget {
  readonly kind: "server" | "sentinel" | "cluster";
  readonly hosts: readonly RedisHost[];
  /** The name of the master, for Sentinel only. */
  readonly master: string | null;
  readonly db: number;
  readonly username: string | null;
  readonly password: string | null;
  readonly isTls: boolean;
  /** The begin of every key. Default: `redrive`. */
  readonly prefix: string;
  /**
   * `relaxed`: the server may sync its log once a second, so a power loss loses the last second.
   * Default: `strict`.
   */
  readonly durability: "strict" | "relaxed";
  /** How many replicas must have received a write before it is acknowledged. Default: 0. */
  readonly replicas: number;
  /** `trusted`: the settings of the server are not checked. Default: `checked`. */
  readonly settings: "checked" | "trusted";
}

interface RedisHost {
  readonly host: string;
  readonly port: number;
}

/**
 * The last `@` ends the password, as in other URLs. No other part has one, so that a password with a
 * `/` is refused as a whole, and no message quotes a part of it.
 */
const FORM =
  /^(rediss?)(\+sentinel|\+cluster)?:\/\/(?:([^/?]*)@)?([^@/?]+)((?:\/[^@/?]*)*)(?:\?([^@]*))?$/su;
const DEFAULT_PORTS = { server: 6379, sentinel: 26_379, cluster: 6379 } as const;
const MAX_REPLICAS = 100;
const MAX_DB = 1_000_000;

export function isRedisUrl(text: string): boolean {
  return /^rediss?(\+sentinel|\+cluster)?:/u.test(text);
}

/** Throws `INVALID_ARGUMENT`, without the password. */
export function parseRedisUrl(text: string): RedisTarget {
  const parts = FORM.exec(text);
  if (parts === null) {
    throw refused(
      "a Redis URL must be redis://host:port/db, redis+sentinel://... or redis+cluster://..., with / " +
        "and ? in a password written as %2F and %3F",
    );
  }
  const [, scheme, suffix = "", login = "", hosts = "", path = "", query = ""] = parts;
  const kind = (suffix === "" ? "server" : suffix.slice(1)) as RedisTarget["kind"];
  const [username, password] = loginOf(login);
  return {
    kind,
    hosts: hosts.split(",").map((host) => hostOf(host, DEFAULT_PORTS[kind])),
    ...placeOf(kind, path.split("/").slice(1)),
    username,
    password,
    isTls: scheme === "rediss",
    ...optionsOf(new URLSearchParams(query)),
  };
}

/** The address without credentials, for messages. */
export function addressOf({ hosts, master }: RedisTarget): string {
  const list = hosts.map(({ host, port }) => `${host}:${port}`).join(",");
  return master === null ? list : `${list}/${master}`;
}

function refused(message: string): RedriveError {
  return new RedriveError("INVALID_ARGUMENT", message);
}

function loginOf(login: string): readonly [string | null, string | null] {
  if (login === "") return [null, null];
  const at = login.indexOf(":");
  const user = decoded(at < 0 ? login : login.slice(0, at));
  return [user === "" ? null : user, at < 0 ? null : decoded(login.slice(at + 1))];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    const message = "the user or password of a Redis URL has a % that is not an escape: write %25";
    throw causedError("INVALID_ARGUMENT", message, error);
  }
}

function hostOf(text: string, defaultPort: number): RedisHost {
  const [, host = "", port] = /^(\[[^\]]+\]|[^:]+)(?::(\d+))?$/u.exec(text) ?? [];
  const number = port === undefined ? defaultPort : Number(port);
  if (host === "" || number < 1 || number > 65_535) {
    throw refused(`a host of a Redis URL must be name:port, got ${JSON.stringify(text)}`);
  }
  return { host: host.replace(/^\[|\]$/gu, ""), port: number };
}

function placeOf(kind: RedisTarget["kind"], path: readonly string[]) {
  const [first = "", second = "", ...rest] = path;
  const [master, db] = kind === "sentinel" ? [first, second] : [null, first];
  const isTooLong = rest.length > 0 || (kind !== "sentinel" && second !== "");
  if (isTooLong) throw refused("a Redis URL has too many parts after the host");
  if (master === "") throw refused("a redis+sentinel URL must name the master after the hosts");
  if (kind === "cluster" && db !== "") throw refused("a Redis Cluster has only one database");
  return { master: master === null ? null : decoded(master), db: numberOf("db", db, MAX_DB) };
}

function numberOf(name: string, text: string | null, max: number): number {
  const number = Number(text === null || text === "" ? 0 : text);
  if (Number.isInteger(number) && number >= 0 && number <= max) return number;
  throw refused(`${name} of a Redis URL must be an integer from 0 to ${max}, got "${text}"`);
}

function optionsOf(query: URLSearchParams) {
  const known = ["prefix", "durability", "replicas", "settings"];
  const unknown = [...query.keys()].find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw refused(
      `a Redis URL has the options ${known.join(", ")}, got ${JSON.stringify(unknown)}`,
    );
  }
  const prefix = query.get("prefix") ?? "redrive";
  if (!/^[\w.:-]{1,64}$/u.test(prefix)) {
    throw refused(
      `prefix must be 1 to 64 letters, digits or . : _ -, got ${JSON.stringify(prefix)}`,
    );
  }
  return {
    prefix,
    durability: choiceOf(query, "durability", ["strict", "relaxed"]),
    replicas: numberOf("replicas", query.get("replicas"), MAX_REPLICAS),
    settings: choiceOf(query, "settings", ["checked", "trusted"]),
  };
}

function choiceOf<Choice extends string>(
  query: URLSearchParams,
  name: string,
  choices: readonly [Choice, ...Choice[]],
): Choice {
  const given = query.get(name);
  if (given === null) return choices[0];
  const found = choices.find((choice) => choice === given);
  if (found !== undefined) return found;
  throw refused(`${name} must be ${choices.join(" or ")}, got ${JSON.stringify(given)}`);
}
