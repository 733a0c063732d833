/**
 * Connector: opens the sockets of attempts, and only to addresses that the target policy allows. A
 * name is resolved once, every address of the answer is judged, and the socket is pinned to that
 * answer, so that a second answer cannot differ; the address that was really reached is judged
 * again before the first byte of a request. TLS stays on the name.
 */
import { once } from "node:events";
import { connect as connectTcp, type LookupFunction, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import type { Cancel, Clock } from "@redrive/core";
import type { buildConnector } from "undici";
import { parseAddress } from "./address-guard/address.ts";
import type { ResolvedAddress, Resolver } from "./address-guard/resolver.ts";
import { mayLookUp, mayReach, type TargetPolicy } from "./address-guard/target-policy.ts";
import { ConnectTimeout, LookupFailed, TargetDenied } from "./failure.ts";
import type { TlsSessions } from "./tls-sessions.ts";

/** At most this many addresses of one answer are tried: it may hold thousands. */
export const MAX_ADDRESSES = 8;

/** A lookup that takes longer has failed. */
export const LOOKUP_DEADLINE_MS = 5000;

/** For a connection that no attempt waits for: one reopened after the target closed it. */
const DEFAULT_TIMEOUT_MS = 3000;

/** Idle connections are probed by the system after this long, so that dead ones are found. */
const KEEPALIVE_PROBE_MS = 60_000;

export interface ConnectorParts {
  readonly clock: Clock;
  /** Called at every check: before the lookup, after it, and once the socket is connected. */
  readonly policy: () => TargetPolicy;
  readonly resolve: Resolver;
  readonly sessions: TlsSessions;
  /** Certificates to trust instead of the well-known ones; PEM. */
  readonly ca?: string | undefined;
}

/** The attempt for which a connection is opened: it says how long, and is told what it cost. */
export interface Opener {
  readonly connectTimeoutMs: number;
  dnsMs: number | null;
  connectMs: number | null;
  tlsMs: number | null;
  /** Ends the opening; undefined once it is over. */
  cancelOpening: Cancel | undefined;
}

/** Where to connect, as undici asks for it. */
interface Endpoint {
  readonly name: string;
  readonly port: number;
  readonly isTls: boolean;
}

export class Connector {
  readonly #parts: ConnectorParts;

  /**
   * Mutable state: whoever dispatches right now. undici opens a connection within `dispatch` and
   * does not say for which request, but while that runs there is only one.
   */
  opener: Opener | undefined;

  constructor(parts: ConnectorParts) {
    this.#parts = parts;
  }

  /** For undici: calls back with a socket that may be written to, or with why there is none. */
  readonly connect: buildConnector.connector = (options, callback) => {
    const isTls = options.protocol === "https:";
    const port = Number(options.port || (isTls ? 443 : 80));
    const endpoint = { name: options.hostname, port, isTls };
    open(this.#parts, endpoint, this.opener).then(
      (socket) => callback(null, socket),
      (error: Error) => callback(error, null),
    );
  };
}

/** Races the opening against its timeout and its cancellation; a loser leaves no socket behind. */
async function open(
  parts: ConnectorParts,
  endpoint: Endpoint,
  opener: Opener | undefined,
): Promise<Socket> {
  const opening = new Opening(parts, endpoint, opener);
  const timeoutMs = opener?.connectTimeoutMs ?? DEFAULT_TIMEOUT_MS;
  const cancelAlarm = parts.clock.alarm(timeoutMs, () => opening.end(opening.lateness()), true);
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

/** One connection on its way, from name to socket. */
class Opening {
  readonly #parts: ConnectorParts;
  readonly #endpoint: Endpoint;
  readonly #opener: Opener | undefined;
  /** Rejects when the opening is ended from outside. */
  readonly ended: Promise<never>;

  // Mutable state.
  #isOver = false;
  #socket: Socket | undefined;
  #reject: (error: unknown) => void = () => {};

  constructor(parts: ConnectorParts, endpoint: Endpoint, opener: Opener | undefined) {
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
    const addresses = await addressesOf(this.#parts, this.#endpoint);
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
    };
    const socket = isTls ? this.#startTls(options) : connectTcp(options);
    socket.setNoDelay(true).setKeepAlive(true, KEEPALIVE_PROBE_MS);
    // Whoever holds the socket listens too; this one keeps an error in between from ending us.
    return socket.on("error", () => {});
  }

  #startTls(options: object): TLSSocket {
    const { name, port } = this.#endpoint;
    const key = `${name}:${port}`;
    const { ca, sessions } = this.#parts;
    const socket = connectTls({
      ...options,
      servername: parseAddress(name) ? "" : name.replace(/\.$/, ""),
      ALPNProtocols: ["http/1.1"],
      // Said aloud, or NODE_TLS_REJECT_UNAUTHORIZED=0 would switch it off.
      rejectUnauthorized: true,
      session: sessions.get(key),
      ...(ca === undefined ? {} : { ca }),
    });
    return socket.on("session", (session) => sessions.set(key, session));
  }

  async #established(socket: Socket, startMs: number): Promise<void> {
    const { clock } = this.#parts;
    const secured = this.#endpoint.isTls ? once(socket, "secureConnect") : undefined;
    // Both fail together; without this the second rejection would be nobody's.
    secured?.catch(() => {});
    await once(socket, "connect");
    const connectedMs = clock.monotonicMs();
    if (this.#opener) this.#opener.connectMs = connectedMs - startMs;
    await secured;
    if (this.#opener && secured) this.#opener.tlsMs = clock.monotonicMs() - connectedMs;
  }

  /** The last word: what the socket says it reached, whatever a lookup said before. */
  #checkReached(socket: Socket): void {
    const { name, port } = this.#endpoint;
    const place = { address: socket.remoteAddress, name, port };
    if (!mayReach(this.#parts.policy(), place)) throw new TargetDenied(name);
  }
}

/** The addresses to try, all of them judged; undefined for a literal, which needs no lookup. */
async function addressesOf(
  parts: ConnectorParts,
  { name, port }: Endpoint,
): Promise<readonly ResolvedAddress[] | undefined> {
  if (parseAddress(name)) {
    if (mayReach(parts.policy(), { address: name, name, port })) return undefined;
    throw new TargetDenied(name);
  }
  if (!mayLookUp(parts.policy(), name, port)) throw new TargetDenied(name);
  const resolved = await withLookupDeadline(parts.clock, parts.resolve(name));
  if (resolved.length === 0) throw new LookupFailed("EMPTY_ANSWER");
  // One forbidden address spoils the answer: honest names do not mix inside and outside.
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
    resolved.then(resolve, reject).finally(cancel);
  });
}

/** Hands out the one answer that was judged. Node never calls it for literals. */
function pinned(addresses: readonly ResolvedAddress[]): LookupFunction {
  return (_name, options, done) => {
    const [first] = addresses;
    if (options.all) done(null, [...addresses]);
    else done(null, first?.address ?? "", first?.family);
  };
}
