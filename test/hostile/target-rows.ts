/**
 * Target rows: the table of forbidden targets (server-side request forgery), rows 1 to 108, as a service in
 * public mode meets them, and row 38 of the table of hostile responses. Rows 97, 99 and 100 need another
 * process or another environment; `inside-namespace.ts` has them.
 */
import { type POLICIES, SUCCEEDED } from "./hostile-row.ts";
import { BOUNDARIES, SERVICE } from "./world.ts";

export interface TargetRow {
  /** The number in the table of forbidden targets, or "38" of hostile responses with its table. */
  readonly row: string;
  readonly url: string;
  /**
   * `denied`: the create is refused with 422. `malformed`: the create is refused with 400. Otherwise the
   * last attempt and the end, as in a `HostileRow`.
   */
  readonly expected: string;
  /** Attempts of an accepted task. Default: 1. */
  readonly attempts?: number;
  readonly policy?: keyof typeof POLICIES;
  /** A text that the error of the attempt contains. Default: any. */
  readonly error?: string;
}

const hosts = (row: string, expected: string, ...names: readonly string[]): readonly TargetRow[] =>
  names.map((name) => ({ row, url: `http://${name}/`, expected }));
const urls = (row: string, expected: string, ...texts: readonly string[]): readonly TargetRow[] =>
  texts.map((url) => ({ row, url, expected }));

const loopback: readonly TargetRow[] = [
  ...hosts("1-5", "denied", "127.0.0.1", "127.1", "127.0.0.1.", "127.255.255.254"),
  ...hosts("1-5", "denied", "localhost", "LOCALHOST", "localhost."),
  ...hosts("6-11", "denied", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001"),
  ...hosts("6-11", "denied", "%31%32%37.0.0.1"),
  ...hosts("12-13", "denied", "①②⑦.⓪.⓪.①", "127。0。0。1"),
  ...hosts("14-17", "denied", "0", "0.0.0.0", "0.1.2.3", "[::]"),
  ...hosts("18-21", "denied", "[::1]", "[0000::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"),
  ...hosts("22-25", "denied", "[::127.0.0.1]", "[::ffff:0:7f00:1]"),
  ...hosts("22-25", "denied", "[64:ff9b::7f00:1]", "[64:ff9b:1::a00:1]"),
  ...hosts("26-28", "denied", "[2002:7f00:1::]", "[2001::1]", "[5f00::1]"),
];

const ranges: readonly TargetRow[] = [
  ...hosts("29-33", "denied", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
  ...hosts("29-33", "denied", "0300.0250.1"),
  ...hosts("34-38", "denied", "169.254.169.254", "2852039166", "0xa9fea9fe"),
  ...hosts("34-38", "denied", "0251.0376.0251.0376", "169.254.43518"),
  ...hosts("39-42", "denied", "[::ffff:a9fe:a9fe]", "[fd00:ec2::254]", "[fe80::1]"),
  ...hosts("39-42", "denied", "[2002:a9fe:a9fe::]"),
  ...hosts("43-46", "denied", "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
  ...hosts("47-52", "denied", "198.18.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1"),
  ...hosts("47-52", "denied", "192.88.99.1", "240.0.0.1"),
  ...hosts(
    "53-57",
    "denied",
    "224.0.0.1",
    "255.255.255.255",
    "[ff02::1]",
    "[fc00::1]",
    "[fec0::1]",
  ),
  ...hosts("58-60", "denied", "[2001:db8::1]", "[3fff::1]", "[100::1]"),
];

const texts: readonly TargetRow[] = [
  ...hosts("61-62", "malformed", "[fe80::1%25eth0]", "[::1%25lo]"),
  ...hosts("63-64", "malformed", "example.com@127.0.0.1", "127.0.0.1%2f@example.com"),
  ...urls("65", "denied", "http://127.0.0.1#@example.com/"),
  ...urls("66", "malformed", "http://127.0.0.1\\@example.com/"),
  ...urls("67-70", "malformed", "http:127.0.0.1/", "http:///127.0.0.1/", "http:\\\\127.0.0.1/"),
  ...urls("67-70", "malformed", "http://1.1.1.1 &@2.2.2.2# @3.3.3.3/"),
  ...urls("71-79", "malformed", "file:///etc/passwd", "gopher://a.example/", "data:,x"),
  ...urls("71-79", "malformed", "ftp://a.example/", "ws://a.example/", "javascript:alert(1)"),
  ...urls("71-79", "malformed", "blob:http://a.example/x", "unix:/run/x"),
  ...urls("71-79", "malformed", "http+unix://%2Fvar%2Frun%2Fdocker.sock/"),
  ...hosts("80-82", "malformed", "256.256.256.256", "4294967296", "[::ffff:127.1]"),
];

const DENIED_AT_CONNECT = "fault target-denied, EXHAUSTED target-denied";
const deniedNames = (row: string, ...names: readonly string[]) =>
  hosts(row, DENIED_AT_CONNECT, ...names);

const names: readonly TargetRow[] = [
  ...deniedNames("83", "loopback.example"),
  ...deniedNames("84-86", "loopback6.example", "mapped.example", "chain.example"),
  ...deniedNames("87", "mixed.example", "mixed-thousand.example"),
  ...hosts("88", DENIED_AT_CONNECT, "rebound.example").map(
    (row): TargetRow => ({ ...row, attempts: 2, policy: "twice" }),
  ),
  ...deniedNames("89", "rebound-later.example"),
  ...hosts(
    "91",
    "denied",
    "metadata.google.internal",
    "a.internal",
    "printer.local",
    "a.localhost",
  ),
  ...hosts("91", "denied", "intranet", "redis"),
  { row: "96", url: `http://own.example:${SERVICE.port}/`, expected: DENIED_AT_CONNECT },
  { row: "96", url: `http://${SERVICE.address}:${SERVICE.port}/`, expected: "denied" },
];

const NO_ADDRESS = "error dns, EXHAUSTED attempts";
const lookups: readonly TargetRow[] = (["4B 38", "90"] as const).flatMap((row) => [
  { row, url: "http://nowhere.example/", expected: NO_ADDRESS, error: "ENOTFOUND" },
  { row, url: "http://failing.example/", expected: NO_ADDRESS, error: "ESERVFAIL" },
  { row, url: "http://empty.example/", expected: NO_ADDRESS, error: "ENO" },
  { row, url: "http://silent.example/", expected: NO_ADDRESS, error: "LOOKUP_TIMEOUT" },
  { row, url: "http://thousand.example/", expected: `success 200, ${SUCCEEDED}` },
]);

const PORTS = [22, 25, 110, 143, 2375, 3306, 5432, 6379, 9200, 11_211, 27_017, 6000, 6667, 10_080];

export const TARGET_ROWS: readonly TargetRow[] = [
  ...loopback,
  ...ranges,
  ...texts,
  ...names,
  ...lookups,
  ...hosts("98", "denied", ...PORTS.map((port) => `target.example:${port}`)),
  ...hosts(
    "101-108",
    `success 200, ${SUCCEEDED}`,
    ...BOUNDARIES.map((address) => (address.includes(":") ? `[${address}]` : address)),
  ),
];
