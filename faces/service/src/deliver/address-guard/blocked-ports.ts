/**
 * Blocked ports: services that a forged HTTP request could talk to. The list of the Fetch standard
 * (https://fetch.spec.whatwg.org/#bad-port), which undici enforces in `fetch` only, and the
 * databases, caches and daemons that listen without a password more often than they should.
 */

const FETCH_BAD_PORTS = [
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
  103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
  512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
  995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668,
  6669, 6679, 6697, 10_080,
];

/** Docker, MySQL, PostgreSQL, Redis, Elasticsearch, memcached, MongoDB. */
const UNGUARDED_SERVICES = [2375, 3306, 5432, 6379, 9200, 11_211, 27_017];

/** Ports that need an entry of the allowlist which names them. */
export const BLOCKED_PORTS: ReadonlySet<number> = new Set([
  ...FETCH_BAD_PORTS,
  ...UNGUARDED_SERVICES,
]);
