/**
 * Connector: opens sockets for attempts, only to addresses that the target policy allows. It
 * resolves a name once, checks every address of the result, and pins the socket to that result, so
 * that a second lookup cannot differ. It checks the connected address again before the first byte
 * is sent. TLS verifies the name.
 */
import { once } from "node:events";
import { connect as connectTcp, type LookupFunction, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import type { Cancel, Clock } from "@redrive/core";
import type { buildConnector } from "undici";
import { mayLookUp, mayReach, parseAddress, type TargetPolicy } from "./address-guard.ts";
import { ConnectTimeout, LookupFailed, TargetDenied } from "./failure.ts";
import { LOOKUP_DEADLINE_MS, lookupCodeOf, type ResolvedAddress, type Resolver } from "./lookup.ts";
import { MAX_READ_BODY } from "./response.ts";

/** For a connection that no attempt waits for: undici reopens one after the target closed it. */
const DEFAULT_TIMEOUT_MS = 3000;

/** After this time without a connection, the next address is tried. A busy event loop needs more than Node's 250 ms. */
const NEXT_ADDRESS_MS = 500;

/** The system probes idle connections after this time, so that dead ones are found. */
const KEEPALIVE_PROBE_MS = 60_000;

/** The policy is also called once the socket is connected. */
export interface ConnectorParts extends LookupParts {
  readonly sessions: TlsSessions;
  /** Certificates to trust instead of the well-known ones; PEM. */
  readonly ca?: string | undefined;
}

/** The attempt that opens a connection. It provides the timeout and receives the durations. */
export interface Opener {
  /** Whose limit of lookups applies. */
  readonly tenantId: string;
  readonly connectTimeoutMs: number;
  dnsMs: number | null;
  connectMs: number | null;
  tlsMs: number | null;
  /** Ends the opening; undefined when none is in progress. */
  cancelOpening: Cancel | undefined;
}

/** Where to connect. */
export interface SocketEndpoint {
  readonly name: string;
  readonly port: number;
  readonly isTls: boolean;
  /** The protocol to negotiate, if it uses TLS. Default: none. */
  readonly alpn?: "http/1.1" | "h2";
}

export class Connector {
  readonly #parts: ConnectorParts;

  /**
   * Mutable state: the attempt that dispatches right now. undici opens a connection inside
   * `dispatch` and does not say for which request, but only one dispatch runs at a time.
   */
  opener: Opener | undefined;

  constructor(parts: ConnectorParts) {
    this.#parts = parts;
  }

  /** undici's connector: calls back with a connected socket or an error. */
  readonly connect: buildConnector.connector = (options, callback) => {
    const isTls = options.protocol === "https:";
    const port = Number(options.port || (isTls ? 443 : 80));
    const endpoint = { name: options.hostname, port, isTls, alpn: "http/1.1" } as const;
    this.open(endpoint, this.opener).then(
      (socket) => {
        callback(null, socket);
        acceptContinue(socket);
        limitReceived(socket);
      },
      (error: Error) => callback(error, null),
    );
  };

  /** Races the opening against its timeout and its cancellation, and leaves no socket behind. */
  async open(endpoint: SocketEndpoint, opener: Opener | undefined): Promise<Socket> {
    const { clock } = this.#parts;
    const opening = new Opening(this.#parts, endpoint, opener);
    const timeoutMs = opener?.connectTimeoutMs ?? DEFAULT_TIMEOUT_MS;
    const cancelAlarm = clock.alarm(timeoutMs, () => opening.end(opening.lateness()), true);
    if (opener) opener.cancelOpening = () => opening.end(new ConnectTimeout());
    try {
      return await Promise.race([opening.run(), opening.ended]);
    } catch (error) {
      opening.end(error);
      throw error;
    } finally {
      cancelAlarm();
      if (opener) opener.cancelOpening = undefined;
    }
  }

  /** Whether a connection that is open already may be used now. */
  mayReuse({ name, port }: SocketEndpoint, address: string | undefined): boolean {
    return mayReach(this.#parts.policy(), { address, name, port });
  }
}

/** One connection being opened, from name to socket. */
class Opening {
  readonly #parts: ConnectorParts;
  readonly #endpoint: SocketEndpoint;
  readonly #opener: Opener | undefined;
  /** Rejects when the opening is ended from outside. */
  readonly ended: Promise<never>;

  // Mutable state.
  #isOver = false;
  #socket: Socket | undefined;
  #reject: (error: unknown) => void = () => {};

  constructor(parts: ConnectorParts, endpoint: SocketEndpoint, opener: Opener | undefined) {
    this.#parts = parts;
    this.#endpoint = endpoint;
    this.#opener = opener;
    this.ended = new Promise((_, reject) => {
      this.#reject = reject;
    });
  }

  end(error: unknown): void {
    this.#isOver = true;
    this.#socket?.destroy();
    this.#reject(error);
  }

  lateness(): Error {
    return this.#socket ? new ConnectTimeout() : new LookupFailed("LOOKUP_TIMEOUT");
  }

  async run(): Promise<Socket> {
    const startMs = this.#parts.clock.monotonicMs();
    const addresses = await addressesOf(this.#parts, this.#endpoint, this.#opener?.tenantId ?? "");
    if (this.#isOver) throw new ConnectTimeout();
    const foundMs = this.#parts.clock.monotonicMs();
    if (this.#opener && addresses) this.#opener.dnsMs = foundMs - startMs;
    const socket = this.#start(addresses);
    this.#socket = socket;
    await this.#established(socket, foundMs);
    this.#checkReached(socket);
    return socket;
  }

  #start(addresses: readonly ResolvedAddress[] | undefined): Socket {
    const { name, port, isTls } = this.#endpoint;
    const options = {
      host: name,
      port,
      lookup: pinned(addresses ?? []),
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: NEXT_ADDRESS_MS,
    };
    const socket = isTls ? this.#startTls(options) : connectTcp(options);
    socket.setNoDelay(true).setKeepAlive(true, KEEPALIVE_PROBE_MS);
    // The owner of the socket listens too; this listener covers the time in between.
    return socket.on("error", () => {});
  }

  #startTls(options: object): TLSSocket {
    const { name, port, alpn } = this.#endpoint;
    const key = `${alpn ?? ""} ${name}:${port}`;
    const { ca, sessions } = this.#parts;
    const socket = connectTls({
      ...options,
      servername: parseAddress(name) ? "" : name.replace(/\.$/, ""),
      ...(alpn !== undefined && { ALPNProtocols: [alpn] }),
      // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED=0 would disable it otherwise.
      rejectUnauthorized: true,
      session: sessions.get(key),
      ...(ca === undefined ? {} : { ca }),
    });
    return socket.on("session", (session) => sessions.set(key, session));
  }

  async #established(socket: Socket, startMs: number): Promise<void> {
    const { clock } = this.#parts;
    const secured = this.#endpoint.isTls ? once(socket, "secureConnect") : undefined;
    // Both reject together; this handles the second rejection.
    secured?.catch(() => {});
    await once(socket, "connect");
    const connectedMs = clock.monotonicMs();
    if (this.#opener) this.#opener.connectMs = connectedMs - startMs;
    await secured;
    if (this.#opener && secured) this.#opener.tlsMs = clock.monotonicMs() - connectedMs;
  }

  /** The final check: the address that the socket reached, whatever the lookup returned. */
  #checkReached(socket: Socket): void {
    const { name, port } = this.#endpoint;
    const reached = { address: socket.remoteAddress, name, port };
    if (!mayReach(this.#parts.policy(), reached)) throw new TargetDenied(name);
  }
}

/** Returns only the checked addresses. Node does not call it for literal addresses. */
function pinned(addresses: readonly ResolvedAddress[]): LookupFunction {
  return (_name, options, done) => {
    const [first] = addresses;
    if (options.all) done(null, [...addresses]);
    else done(null, first?.address ?? "", first?.family);
  };
}

// Checked lookup: looks up the name of a target and returns its addresses only if the target policy
// allows all of them.

/** At most this many addresses of one lookup are tried; a lookup may return thousands. */
const MAX_ADDRESSES = 8;

interface LookupParts {
  readonly clock: Clock;
  /** Called at every check: before the lookup and after it. */
  readonly policy: () => TargetPolicy;
  readonly resolve: Resolver;
}

interface NamedPort {
  readonly name: string;
  readonly port: number;
}

/** The checked addresses to try; undefined for a literal address, which needs no lookup. */
async function addressesOf(
  parts: LookupParts,
  { name, port }: NamedPort,
  tenantId: string,
): Promise<readonly ResolvedAddress[] | undefined> {
  if (parseAddress(name)) {
    if (mayReach(parts.policy(), { address: name, name, port })) return undefined;
    throw new TargetDenied(name);
  }
  if (!mayLookUp(parts.policy(), name, port)) throw new TargetDenied(name);
  const resolved = await withLookupDeadline(parts.clock, parts.resolve(name, tenantId));
  if (resolved.length === 0) throw new LookupFailed("EMPTY_ANSWER");
  // One denied address denies the whole name: honest names do not mix internal and public
  // addresses.
  const policy = parts.policy();
  const isAllowed = ({ address }: ResolvedAddress) => mayReach(policy, { address, name, port });
  if (!resolved.every(isAllowed)) throw new TargetDenied(name);
  return resolved.slice(0, MAX_ADDRESSES);
}

function withLookupDeadline<T>(clock: Clock, resolved: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.alarm(
      LOOKUP_DEADLINE_MS,
      () => reject(new LookupFailed("LOOKUP_TIMEOUT")),
      true,
    );
    resolved.then(resolve, (error) => reject(lookupFailure(error))).finally(cancel);
  });
}

/**
 * A lookup knows more codes than core, and some of them, such as `ECONNREFUSED`, mean something else
 * for a connection.
 */
function lookupFailure(error: unknown): unknown {
  const code = lookupCodeOf(error);
  return code === "" ? error : new LookupFailed(code);
}

// TLS sessions: cached sessions that let the next connection to a target skip half of its
// handshake. The cache is bounded, because callers choose the targets.

/** Entries; a session is about 2 KiB. */
const MAX_SESSIONS = 256;

interface TlsSessions {
  get(key: string): Buffer | undefined;
  /** Stores the latest session of a key and evicts the oldest key if the cache is full. */
  set(key: string, session: Buffer): void;
}

export function createTlsSessions(): TlsSessions {
  const sessions = new Map<string, Buffer>();
  return {
    get: (key) => sessions.get(key),
    set: (key, session) => {
      sessions.delete(key);
      sessions.set(key, session);
      const [oldest] = sessions.keys();
      if (sessions.size > MAX_SESSIONS && oldest !== undefined) sessions.delete(oldest);
    },
  };
}

// Received limit: closes a connection on which the target sends too many bytes for one response.
// The length of the body has its own limit, but a target can send other bytes without end:
// informational responses, line ends before a response, a status line, the size or the extension of
// a chunk. They would keep the processor busy until the deadline of the attempt.

/**
 * Bytes from the head of one response to the head of the next. A body of the length that is read fits
 * several times, because small chunks need more bytes than they contain.
 */
const MAX_RECEIVED = 4 * MAX_READ_BODY;

/** Informational responses before a response. They are short, but each costs as much time as a response. */
const MAX_INFORMATIONAL = 1000;

/** Its code has the prefix of the codes of undici's parser, so that it counts as an invalid response. */
export class ReceivedTooMuch extends Error {
  override readonly name = "ReceivedTooMuch";
  readonly code = "HPE_TOO_MANY_BYTES";

  constructor() {
    super(`more than ${MAX_RECEIVED} bytes or ${MAX_INFORMATIONAL} heads for one response`);
  }
}

/** Call it after undici has taken the socket over. The cost is one addition for each read and head. */
function limitReceived(socket: Socket): void {
  const parser = parserOf(socket);
  if (parser === undefined) return;
  let received = 0;
  let informational = 0;
  const read = socket.read;
  socket.read = (size) => {
    const chunk = read.call(socket, size);
    if (chunk === null) return null;
    received += chunk.length;
    if (received <= MAX_RECEIVED) return chunk;
    socket.destroy(new ReceivedTooMuch());
    return null;
  };
  const complete = parser.onHeadersComplete;
  parser.onHeadersComplete = (status, isUpgrade, isKeptAlive) => {
    if (status >= FINAL_STATUS) received = informational = 0;
    else if (++informational > MAX_INFORMATIONAL) socket.destroy(new ReceivedTooMuch());
    // For a destroyed socket, undici stops the parser.
    return complete.call(parser, status, isUpgrade, isKeptAlive);
  };
}

/** Lower ones are informational. */
const FINAL_STATUS = 200;

// Informational: lets a target send `100 Continue` although the request did not ask for it. RFC
// 9110 (15.2) requires that of a client. undici ignores every informational response except 100,
// for which it destroys the connection.

const CONTINUE = 100;
/** `102 Processing`: undici ignores it, and so does an attempt. */
const IGNORED = 102;

/**
 * Call it after undici has taken the socket over. The cost is one call per response and nothing per
 * byte. If undici changes its internals, nothing is done here, and 100 fails an attempt again.
 */
function acceptContinue(socket: Socket): void {
  const parser = parserOf(socket);
  if (parser === undefined) return;
  const complete = parser.onHeadersComplete;
  parser.onHeadersComplete = (status, isUpgrade, isKeptAlive) =>
    complete.call(parser, status === CONTINUE ? IGNORED : status, isUpgrade, isKeptAlive);
}

// undici parser: the parser that undici 7 keeps on the socket of a connection. Only the parser of
// one connection is changed, so other users of undici in the process are not affected.

/** The part of the parser that is used here. It calls this once per head. */
interface ResponseParser {
  onHeadersComplete(status: number, isUpgrade: boolean, isKeptAlive: boolean): number;
}

/** The name of the symbol under which the parser is kept. */
const PARSER = "parser";

/** Undefined if undici has changed its internals. */
function parserOf(socket: Socket): ResponseParser | undefined {
  const key = Object.getOwnPropertySymbols(socket).find(
    ({ description }) => description === PARSER,
  );
  const parser = key && (socket as unknown as Record<symbol, ResponseParser | null>)[key];
  return typeof parser?.onHeadersComplete === "function" ? parser : undefined;
}
