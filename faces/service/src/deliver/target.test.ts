/**
 * Tests of target URLs: malformed, denied and allowed ones. Tests of URLs of brokers: what they
 * name, and what is refused with which message.
 */
import { createRequire } from "node:module";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BLOCKED_PORTS, createTargetPolicy, mayReach, parseAllowlist } from "./address-guard.ts";
import { checkTarget } from "./target.ts";

const PUBLIC = createTargetPolicy();
const LOOPBACK = createTargetPolicy({ mode: "loopback" });

function verdict(url: string, policy = PUBLIC): string {
  const checked = checkTarget(url, policy);
  return checked.ok ? "allowed" : checked.kind;
}

/** Rows of the table of forbidden targets. */
const DENIED: readonly (readonly [string, readonly string[]])[] = [
  [
    "1-5",
    ["127.0.0.1", "127.1", "127.0.0.1.", "127.255.255.254", "localhost", "LOCALHOST", "localhost."],
  ],
  ["6-11", ["2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "%31%32%37.0.0.1"]],
  ["12-13", ["①②⑦.⓪.⓪.①", "127。0。0。1"]],
  ["14-17", ["0", "0.0.0.0", "0.1.2.3", "[::]"]],
  ["18-21", ["[::1]", "[0000::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"]],
  ["22-25", ["[::127.0.0.1]", "[::ffff:0:7f00:1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::a00:1]"]],
  ["26-28", ["[2002:7f00:1::]", "[2001::1]", "[5f00::1]"]],
  ["29-33", ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "0300.0250.1"]],
  [
    "34-38",
    ["169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518"],
  ],
  ["39-42", ["[::ffff:a9fe:a9fe]", "[fd00:ec2::254]", "[fe80::1]", "[2002:a9fe:a9fe::]"]],
  ["43-46", ["100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192"]],
  ["47-52", ["198.18.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.88.99.1", "240.0.0.1"]],
  ["53-57", ["224.0.0.1", "255.255.255.255", "[ff02::1]", "[fc00::1]", "[fec0::1]"]],
  ["58-60", ["[2001:db8::1]", "[3fff::1]", "[100::1]"]],
  [
    "91",
    ["metadata.google.internal", "a.internal", "printer.local", "a.localhost", "intranet", "redis"],
  ],
];

const MALFORMED: readonly (readonly [string, readonly string[]])[] = [
  ["61-62", ["http://[fe80::1%25eth0]/", "http://[::1%25lo]/"]],
  [
    "63-64",
    ["http://example.com@127.0.0.1/", "http://127.0.0.1%2f@example.com/", "http://@example.com/"],
  ],
  ["66", ["http://127.0.0.1\\@example.com/", "http://a.example\\b"]],
  [
    "67-70",
    [
      "http:127.0.0.1/",
      "http:///127.0.0.1/",
      "http:\\\\127.0.0.1/",
      "http://1.1.1.1 &@2.2.2.2# @3.3.3.3/",
    ],
  ],
  [
    "71-75",
    ["file:///etc/passwd", "gopher://a.example/", "data:,x", "ftp://a.example/", "ws://a.example/"],
  ],
  [
    "76-79",
    [
      "javascript:alert(1)",
      "blob:http://a.example/x",
      "unix:/run/x",
      "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
    ],
  ],
  ["80-82", ["http://256.256.256.256/", "http://4294967296/", "http://[::ffff:127.1]/"]],
  ["4A 14-17", ["", "/x", "//h/x", "http://", "http:// /", `http://a.example/${"x".repeat(2048)}`]],
  [
    "4A 18",
    [
      "http://loc\tal\nhost/",
      "http://a.example/\u0000",
      "http://a.example/\u007f",
      " http://a.example/",
    ],
  ],
  ["4A 21", ["http://a.example:0/", "http://a.example:65536/", "http://a.example:99999/"]],
  [
    "labels",
    [
      `http://${"a".repeat(64)}.example/`,
      "http://a..example/",
      `http://${"a.".repeat(130)}example/`,
      "http://a!b.example/",
    ],
  ],
];

describe("static checks in public mode", () => {
  it.each(DENIED)("denies rows %s", (_rows, hosts) => {
    for (const host of hosts) expect([host, verdict(`http://${host}/`)]).toEqual([host, "denied"]);
  });

  it.each(MALFORMED)("rejects rows %s as malformed", (_rows, urls) => {
    for (const url of urls) expect([url, verdict(url)]).toEqual([url, "malformed"]);
  });

  it("ignores a fragment that looks like a host (row 65)", () => {
    expect(verdict("http://127.0.0.1#@example.com/")).toBe("denied");
  });

  it.each([
    "9.255.255.255",
    "11.0.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "169.253.255.255",
    "[2606:4700:4700::1111]",
    "example.com",
    "example.com.",
    "xn--bcher-kva.example",
    "bücher.example",
    "a_b.example",
  ])("allows %s (rows 101-108 and names)", (host) => {
    expect(verdict(`https://${host}/`)).toBe("allowed");
  });

  it("denies ports of services other than web servers (row 98)", () => {
    const listed = [22, 25, 110, 143, 2375, 3306, 5432, 6379, 9200, 11_211, 27_017, 6000, 10_080];
    for (const port of listed) expect(verdict(`http://example.com:${port}/`)).toBe("denied");
    for (const port of [80, 443, 8080, 8443]) {
      expect(verdict(`http://example.com:${port}/`)).toBe("allowed");
    }
  });

  it("blocks every port that undici's fetch blocks", () => {
    const require = createRequire(import.meta.url);
    const { badPorts } = require("undici/lib/web/fetch/constants.js") as { badPorts: string[] };
    expect(badPorts.filter((port) => !BLOCKED_PORTS.has(Number(port)))).toEqual([]);
  });

  it("returns the parsed URL without the fragment", () => {
    expect(
      checkTarget("HTTPS://Example.com:443/a b/../c?q=ü#part".replace(" ", "%20"), PUBLIC),
    ).toEqual({
      ok: true,
      url: "https://example.com/c?q=%C3%BC",
      origin: "https://example.com",
      path: "/c?q=%C3%BC",
    });
  });
});

describe("gRPC targets", () => {
  const METHOD = "shop.v1.Orders/Create";

  it.each(DENIED)("denies the same hosts, rows %s", (_rows, hosts) => {
    for (const host of hosts) {
      expect([host, verdict(`grpc://${host}:50051/${METHOD}`)]).toEqual([host, "denied"]);
      expect([host, verdict(`GRPCS://${host}/${METHOD}`)]).toEqual([host, "denied"]);
    }
  });

  it("have a normalized host, and the ports of HTTP if they name none", () => {
    expect(checkTarget(`GRPC://Example.COM:80/${METHOD}#part`, PUBLIC)).toEqual({
      ok: true,
      url: `grpc://example.com/${METHOD}`,
      origin: "grpc://example.com",
      path: `/${METHOD}`,
      grpc: { name: "example.com", port: 80, isTls: false },
    });
    expect(checkTarget(`grpcs://[2606:4700::1]/${METHOD}`, PUBLIC)).toMatchObject({
      origin: "grpcs://[2606:4700::1]",
      grpc: { name: "2606:4700::1", port: 443, isTls: true },
    });
  });

  it.each(["", "/", "/Method", "/a.Service/", "/a.Service/M?x=1", "/a b/c", "//c", "/a/%2e%2e"])(
    "need a method as path, unlike %j",
    (path) => {
      const checked = checkTarget(`grpc://example.com:50051${path}`, PUBLIC);
      expect(checked).toMatchObject({ ok: false, kind: "malformed" });
    },
  );

  it("are refused with the path in the message", () => {
    expect(checkTarget("grpc://example.com/Create", PUBLIC)).toMatchObject({
      message:
        'targetUrl must have a gRPC method as path, such as /package.Service/Method, got "/Create"',
    });
  });
});

describe("loopback mode", () => {
  const own = [{ address: "127.0.0.1", port: 7337 }];

  it.each(["127.0.0.1", "localhost", "a.localhost", "[::1]", "[::ffff:127.0.0.1]", "example.com"])(
    "allows %s",
    (host) => {
      expect(verdict(`http://${host}:3000/`, LOOPBACK)).toBe("allowed");
    },
  );

  it.each([
    "10.0.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "[fe80::1]",
    "0.0.0.0",
    "intranet",
    "a.internal",
  ])("still denies %s", (host) => {
    expect(verdict(`http://${host}:3000/`, LOOPBACK)).toBe("denied");
  });

  it("denies this service's own port, in any notation and on any loopback address (row 96)", () => {
    const policy = createTargetPolicy({ mode: "loopback", own });
    for (const host of ["127.0.0.1", "127.0.0.2", "2130706433", "[::1]", "[::ffff:7f00:1]"]) {
      expect(verdict(`http://${host}:7337/`, policy)).toBe("denied");
      expect(verdict(`http://${host}:7338/`, policy)).toBe("allowed");
    }
    expect(mayReach(policy, { address: "127.0.0.1", name: "localhost", port: 7337 })).toBe(false);
  });
});

describe("any text", () => {
  const piece = fc.constantFrom(
    ..."http:// https:// grpc:// grpcs:// amqp:// rediss-stream:// // @ : / \\ [ ] % . # ?".split(
      " ",
    ),
    ..."?queue=q ?exchange=e&routingKey=k ?stream=s&maxLen=9 %2F +".split(" "),
    ..."127.0.0.1 ::1 localhost example.com 0x7f １ 。 ü".split(" "),
    ..."\t \n \u0000 \ud800 \u202e %00 :80 :0".split(" "),
  );
  const text = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.webUrl(),
    fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join("")),
  );

  it("never throws, and allows only known schemes without user, control or backslash", () => {
    fc.assert(
      fc.property(text, (url) => {
        const checked = checkTarget(url, LOOPBACK);
        if (!checked.ok) return;
        const parsed = new URL(checked.url);
        expect(parsed.protocol).toMatch(/^(https?|grpcs?|amqps?|rediss?-stream):$/);
        expect(parsed.username + parsed.password + parsed.hash).toBe("");
        expect(url).toMatch(/^(https?|grpcs?|amqps?|rediss?-stream):\/\//i);
        expect(url).not.toMatch(/[\s\\]/);
      }),
      { numRuns: 3000 },
    );
  });

  it("never reaches an address that does not parse", () => {
    fc.assert(
      fc.property(fc.option(fc.string(), { nil: undefined }), (address) => {
        const reached = mayReach(LOOPBACK, { address, name: "a.example", port: 80 });
        if (reached) expect(address).toMatch(/^[\d.]+$|:/);
      }),
    );
  });

  it.each([undefined, null, 7, {}])("calls %j malformed", (value) => {
    expect(verdict(value as unknown as string)).toBe("malformed");
  });
});

describe("broker target", () => {
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
});
