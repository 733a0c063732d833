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
import { parseAddress } from "./address-guard/address.ts";
import type { ResolvedAddress, Resolver } from "./address-guard/resolver.ts";
import { mayLookUp, mayReach, type TargetPolicy } from "./address-guard/target-policy.ts";
import { ConnectTimeout, LookupFailed, TargetDenied } from "./failure.ts";
import { acceptContinue } from "./informational.ts";
import type { TlsSessions } from "./tls-sessions.ts";

/** At most this many addresses of one lookup are tried; a lookup may return thousands. */
export const MAX_ADDRESSES = 8;

/** A lookup that takes longer has failed. */
export const LOOKUP_DEADLINE_MS = 5000;

/** For a connection that no attempt waits for: undici reopens one after the target closed it. */
const DEFAULT_TIMEOUT_MS = 3000;

/** The system probes idle connections after this time, so that dead ones are found. */
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

/** The attempt that opens a connection. It provides the timeout and receives the durations. */
export interface Opener {
  readonly connectTimeoutMs: number;
  dnsMs: number | null;
  connectMs: number | null;
  tlsMs: number | null;
  /** Ends the opening; undefined when none is in progress. */
  cancelOpening: Cancel | undefined;
}

/** Where to connect, from undici's options. */
interface Endpoint {
  readonly name: string;
  readonly port: number;
  readonly isTls: boolean;
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
    const endpoint = { name: options.hostname, port, isTls };
    open(this.#parts, endpoint, this.opener).then(
      (socket) => {
        callback(null, socket);
        acceptContinue(socket);
      },
      (error: Error) => callback(error, null),
    );
  };
}

/** Races the opening against its timeout and its cancellation, and leaves no socket behind. */
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

/** One connection being opened, from name to socket. */
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
    // The owner of the socket listens too; this listener covers the time in between.
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

/** The checked addresses to try; undefined for a literal address, which needs no lookup. */
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
    resolved.then(resolve, reject).finally(cancel);
  });
}

/** Returns only the checked addresses. Node does not call it for literal addresses. */
function pinned(addresses: readonly ResolvedAddress[]): LookupFunction {
  return (_name, options, done) => {
    const [first] = addresses;
    if (options.all) done(null, [...addresses]);
    else done(null, first?.address ?? "", first?.family);
  };
}
