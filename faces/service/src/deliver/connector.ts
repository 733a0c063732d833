/**
 * Connector: opens sockets for attempts, only to addresses that the target policy allows. It
 * resolves a name once, checks every address of the result, and pins the socket to that result, so
 * that a second lookup cannot differ. It checks the connected address again before the first byte
 * is sent. TLS verifies the name.
 */
import { once } from "node:events";
import { connect as connectTcp, type LookupFunction, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import type { Cancel } from "@redrive/core";
import type { buildConnector } from "undici";
import { parseAddress } from "./address-guard/address.ts";
import { mayReach } from "./address-guard/target-policy.ts";
import { addressesOf, type LookupParts } from "./checked-lookup.ts";
import { ConnectTimeout, LookupFailed, TargetDenied } from "./failure.ts";
import { acceptContinue } from "./informational.ts";
import type { ResolvedAddress } from "./lookup/resolver.ts";
import { limitReceived } from "./received-limit.ts";
import type { TlsSessions } from "./tls-sessions.ts";

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
