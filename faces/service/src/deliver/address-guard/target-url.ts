/**
 * Target URL: parses the URL of a target by its scheme. Every scheme becomes `http:` or `https:` first,
 * because the parser normalizes the host only of schemes that it knows: it would not recognize
 * `grpc://0x7f.1` as an address.
 */

/** How a target is called, without and with TLS. */
export type TargetScheme = "http" | "grpc" | "amqp" | "redis-stream";

export interface TargetUrl {
  /** With the scheme `http:` or `https:`. */
  readonly url: URL;
  readonly scheme: TargetScheme;
  readonly isTls: boolean;
  /** The one in the URL, otherwise the one that the scheme implies. */
  readonly port: number;
  /** With the port, unless the scheme implies it. */
  readonly host: string;
  /** Scheme and host. */
  readonly origin: string;
}

interface SchemeTraits {
  readonly scheme: TargetScheme;
  readonly isTls: boolean;
  readonly impliedPort: number;
}

const SCHEMES: ReadonlyMap<string, SchemeTraits> = new Map([
  ["http", { scheme: "http", isTls: false, impliedPort: 80 }],
  ["https", { scheme: "http", isTls: true, impliedPort: 443 }],
  ["grpc", { scheme: "grpc", isTls: false, impliedPort: 80 }],
  ["grpcs", { scheme: "grpc", isTls: true, impliedPort: 443 }],
  ["amqp", { scheme: "amqp", isTls: false, impliedPort: 5672 }],
  ["amqps", { scheme: "amqp", isTls: true, impliedPort: 5671 }],
  ["redis-stream", { scheme: "redis-stream", isTls: false, impliedPort: 6379 }],
  ["rediss-stream", { scheme: "redis-stream", isTls: true, impliedPort: 6379 }],
]);

/** The schemes of targets. */
export const SCHEME_NAMES: readonly string[] = [...SCHEMES.keys()];

/** Undefined: the scheme is unknown, or the URL is malformed. */
export function parseTargetUrl(text: string): TargetUrl | undefined {
  const [written = ""] = /^[a-z-]+(?=:)/i.exec(text) ?? [];
  const name = written.toLowerCase();
  const traits = SCHEMES.get(name);
  const known = `${traits?.isTls ? "https" : "http"}${text.slice(name.length)}`;
  if (traits === undefined || !URL.canParse(known)) return undefined;
  const { scheme, isTls, impliedPort } = traits;
  const url = new URL(known);
  const port = Number(url.port || writtenPort(text) || impliedPort);
  const host = port === impliedPort ? url.hostname : `${url.hostname}:${port}`;
  return { url, scheme, isTls, port, host, origin: `${name}://${host}` };
}

/** The parser drops a port that `http:` or `https:` implies, although another scheme does not. */
function writtenPort(text: string): string | undefined {
  return /^[^/]*\/\/[^/?#]*:(\d+)(?:[/?#]|$)/.exec(text)?.[1];
}
