/** Deliver: mutants of lookups, the address guard, signing, redaction, and the attempt itself. */
import { inService } from "../mutant.mjs";

const guard = [
  inService("deliver/address-guard.ts", [
    {
      name: "an internal name is looked up",
      search: "if (!isInternalName(bare)) return true;",
      replace: "return true;",
    },
    {
      name: "a metadata address is open to any rule",
      search:
        'if (kind === "metadata") return rules.some((rule) => rule.block?.prefix === bytes.length * 8);',
      replace: "",
    },
    {
      name: "the own port of the service is a target",
      search: "if (bytes === undefined || isOwn(policy, bytes, port)) return false;",
      replace: "if (bytes === undefined) return false;",
    },
    {
      name: "loopback is public",
      search: 'kind === "public" || (kind === "loopback" && policy.mode === "loopback")',
      replace: 'kind === "public" || kind === "loopback"',
    },
    {
      name: "a rule opens every port",
      search: "rule.port === undefined || rule.port === port;",
      replace: "true;",
    },
    {
      name: "a name with a trailing dot is another name",
      search: 'return name.toLowerCase().replace(/\\.$/, "");',
      replace: "return name.toLowerCase();",
    },
    {
      name: "a listener on every address is not found on the addresses of the machine",
      search: "listener === undefined && policy.machine.some((address) => isSame(address, bytes))",
      replace: "false",
    },
  ]),
  inService("deliver/address-guard.ts", [
    {
      name: "an IPv4 address inside an IPv6 address escapes the rules",
      search: "unwrapMapped(parseIpv6(bare))",
      replace: "parseIpv6(bare)",
    },
    {
      name: "leading zeros are read as decimal",
      search: "/^(0|[1-9]\\d{0,2})$/.test(text) && Number(text) <= 255",
      replace: "/^\\d{1,3}$/.test(text) && Number(text) <= 255",
    },
    {
      name: "a private block is public",
      search: '  "10.0.0.0/8",\n',
      replace: "",
    },
    {
      name: "unallocated IPv6 addresses are public",
      search: "GLOBAL_IPV6.some(isIn) && !SPECIAL_IPV6.some(isIn)",
      replace: "!SPECIAL_IPV6.some(isIn)",
    },
  ]),
  inService("deliver/target.ts", [
    {
      name: "a URL may have a user and a password",
      search: 'authority.includes("@")',
      replace: "false",
    },
    {
      name: "a URL may have a backslash",
      search: 'if (text.includes("\\\\")) return "targetUrl must have no backslash";',
      replace: "",
    },
    {
      name: "the fragment is sent to the target",
      search: '  url.hash = "";\n',
      replace: "",
    },
  ]),
  inService("deliver/connector.ts", [
    {
      name: "one allowed address opens all addresses of a name",
      search: "if (!resolved.every(isAllowed)) throw new TargetDenied(name);",
      replace: "if (!resolved.some(isAllowed)) throw new TargetDenied(name);",
    },
    {
      name: "a lookup may take forever",
      search: "withLookupDeadline(parts.clock, parts.resolve(name, tenantId))",
      replace: "parts.resolve(name, tenantId)",
    },
    {
      name: "an empty answer of a lookup is no failure",
      search: 'if (resolved.length === 0) throw new LookupFailed("EMPTY_ANSWER");',
      replace: "",
    },
  ]),
  inService("deliver/connector.ts", [
    {
      name: "the address that was reached is not checked",
      search: "    this.#checkReached(socket);\n",
      replace: "",
    },
    {
      name: "certificates are not checked",
      search: "rejectUnauthorized: true,",
      replace: "rejectUnauthorized: false,",
    },
  ]),
  inService("deliver/connector.ts", [
    {
      name: "an unrequested 100 Continue fails the attempt",
      search: "status === CONTINUE ? IGNORED : status",
      replace: "status",
    },
  ]),
  inService("deliver/connector.ts", [
    {
      name: "a target may flood a connection until the deadline",
      search: "if (received <= MAX_RECEIVED) return chunk;",
      replace: "if (received >= 0) return chunk;",
    },
    {
      name: "a target may send short informational responses until the deadline",
      search: "++informational > MAX_INFORMATIONAL",
      replace: "++informational < 0",
    },
    {
      name: "the limit of one response counts for the connection",
      search: "if (status >= FINAL_STATUS) received = informational = 0;",
      replace: "if (status >= FINAL_STATUS) informational = 0;",
    },
  ]),
];

const lookups = [
  inService("deliver/lookup.ts", [
    {
      name: "a lookup has no deadline",
      search: "this.#clock.alarm(LOOKUP_DEADLINE_MS, () => channel.cancel(), true)",
      replace: "this.#clock.alarm(LOOKUP_DEADLINE_MS, () => {}, true)",
    },
    {
      name: "one family waits for the other until the deadline",
      search: "const cancel = () => this.#channel.cancel();",
      replace: "const cancel = () => {};",
    },
    {
      name: "the name server decides about localhost",
      search:
        'if (bare === "localhost" || bare.endsWith(".localhost")) return this.#files.loopback;',
      replace: "",
    },
    {
      name: "the hosts file is ignored",
      search: "if (known !== undefined) return known;",
      replace: "",
    },
  ]),
  inService("deliver/lookup.ts", [
    {
      name: "a tenant may use all lookups",
      search: "running < this.#limits.perTenant && ",
      replace: "running >= 0 && ",
    },
    {
      name: "a waiting lookup never gives up",
      search: "settle(Promise.reject(tooMany()));",
      replace: "",
    },
    {
      name: "tenants do not take turns",
      search: "    this.#moveToEnd(tenant);\n",
      replace: "    this.#tenants.set(tenant.tenantId, tenant);\n",
    },
  ]),
];

const attempts = [
  inService("deliver/attempt.ts", [
    {
      name: "a process that was suspended sends its first byte without a lease",
      search: "if (this.#call.options.mayStart?.() === false) this.#endEarly(undefined);",
      replace: "",
    },
    {
      name: "a 1xx response is the response",
      search: "status >= 200 && !this.#isOver",
      replace: "!this.#isOver",
    },
    {
      name: "an endless body is read to its end",
      search: "if (this.body.length > MAX_READ_BODY) this.#endEarly(undefined);",
      replace: "",
    },
    {
      name: "a success whose body was cut off is a success",
      search: "if (head && (isCut || !isSuccess(head.status))) this.#endAnswered(head, false);",
      replace: "if (head) this.#endAnswered(head, false);",
    },
    {
      name: "an attempt whose deadline has passed is not ended",
      search: "    deadlines.add(this);\n",
      replace: "",
    },
  ]),
  inService("deliver/response.ts", [
    {
      name: "a short credential is stored if the target sends it back",
      search: "(value.length >= LIKELY_SECRET || CREDENTIALS.test(name))",
      replace: "value.length >= LIKELY_SECRET",
    },
    {
      name: "a secret that is cut off at the end of the text is stored",
      search: "if (!isCut) return masked;",
      replace: "return masked;",
    },
    {
      name: "the credentials without their scheme are stored",
      search: "of [secret, credentials]) {",
      replace: "of [secret]) {",
    },
    {
      name: "a secret that is escaped in JSON is stored",
      search: "return [text, inJson(text)].flatMap(bytesOf);",
      replace: "return [text].flatMap(bytesOf);",
    },
    {
      name: "a secret with a quote is taken for one that looks the same in JSON",
      search: "[ !#-[\\]-~]",
      replace: "[ -[\\]-~]",
    },
  ]),
  inService("deliver/response.ts", [
    {
      name: "cookies are stored",
      search: 'if (name === "set-cookie") return "***";',
      replace: "",
    },
    {
      name: "the query of a location is stored",
      search: 'name === "location" ? value.replace(/[?#].*$/s, "") : value',
      replace: "value",
    },
    {
      name: "a chunk is kept without a copy",
      search: "Buffer.from(chunk.length > room ? chunk.subarray(0, room) : chunk)",
      replace: "chunk.length > room ? chunk.subarray(0, room) : chunk",
    },
  ]),
  inService("deliver/deliverer.ts", [
    {
      name: "a task sets the headers of the service",
      search: 'OMITTED.has(lower) || lower.startsWith("redrive-")',
      replace: "OMITTED.has(lower)",
    },
    {
      name: "the target gets no key if the caller gave none",
      search: "own.idempotencyKey ?? own.taskId",
      replace: 'own.idempotencyKey ?? ""',
    },
  ]),
  inService("deliver/signing.ts", [
    {
      name: "only the first of several secrets counts",
      search: "keys.some((key) =>",
      replace: "keys.slice(0, 1).some((key) =>",
    },
    {
      name: "only the first of several signatures counts",
      search: "signatures.some((signature) =>",
      replace: "signatures.slice(0, 1).some((signature) =>",
    },
    {
      name: "the timestamp is not signed",
      search: "`${id}.${timestamp}.`",
      replace: "`${id}.`",
    },
  ]),
];

export const deliver = [...guard, ...lookups, ...attempts].flat();
