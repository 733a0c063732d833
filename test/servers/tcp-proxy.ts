/**
 * TCP proxy: a connection between a node and its store that a test cuts, silences, delays, or loses
 * responses of. It works on loopback, without root and without a change of the network.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * `open` forwards. `refused` closes all connections, and each new one at once. `silent` keeps them
 * open and forwards nothing, as if every packet was lost: neither side learns of it.
 */
export type LinkState = "open" | "refused" | "silent";

export interface Lag {
  /** For every piece of data, in each direction. */
  readonly delayMs: number;
  /** The share of pieces that arrive later, as after a lost packet. */
  readonly lostShare: number;
  /** How much later. TCP repeats a lost packet after at least 200 ms on Linux. */
  readonly repeatMs: number;
}

interface Link {
  readonly client: Socket;
  readonly server: Socket;
}

const NO_LAG: Lag = { delayMs: 0, lostShare: 0, repeatMs: 0 };

export class TcpProxy {
  /** Where connections go. A failover changes it. */
  targetPort: number;
  lag: Lag = NO_LAG;
  /** How many connections were closed with a response that the client did not get. */
  cuts = 0;
  readonly #server: Server;
  readonly #links = new Set<Link>();
  readonly #random: () => number;
  #state: LinkState = "open";
  #isCutting = false;

  constructor(targetPort: number, random: () => number = () => 1) {
    this.targetPort = targetPort;
    this.#random = random;
    this.#server = createServer((client) => this.#accept(client));
  }

  async listen(): Promise<void> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get state(): LinkState {
    return this.#state;
  }

  /** A connection that was silent has lost data, so it is closed when others are forwarded again. */
  set state(state: LinkState) {
    const mustClose = state === "refused" || this.#state === "silent";
    this.#state = state;
    if (mustClose) this.#closeAll();
  }

  /**
   * The next response of the server is not forwarded, and its connection is closed: the server has
   * done what it was told, and the client cannot know.
   */
  cutNextResponse(): void {
    this.#isCutting = true;
  }

  close(): void {
    this.#closeAll();
    this.#server.close();
  }

  #closeAll(): void {
    for (const { client, server } of this.#links) {
      client.resetAndDestroy();
      server.resetAndDestroy();
    }
    this.#links.clear();
  }

  #accept(client: Socket): void {
    client.on("error", () => {});
    if (this.#state === "refused") {
      client.resetAndDestroy();
      return;
    }
    const server = connect(this.targetPort, "127.0.0.1");
    server.on("error", () => {});
    const link = { client, server };
    this.#links.add(link);
    const end = () => {
      this.#links.delete(link);
      // A half-open connection: nobody hears about the end of the other side.
      if (this.#state === "silent") return;
      client.destroy();
      server.destroy();
    };
    client.on("close", end);
    server.on("close", end);
    this.#forward(client, server);
    this.#forward(server, client, link);
  }

  /** `responses`: the data comes from the server of this link. */
  #forward(from: Socket, to: Socket, responses?: Link): void {
    let earlier: Promise<void> = Promise.resolve();
    let isLate = false;
    from.on("data", (data) => {
      if (this.#state === "silent") return;
      if (responses !== undefined && this.#isCutting) {
        this.#isCutting = false;
        this.cuts++;
        responses.client.resetAndDestroy();
        responses.server.destroy();
        return;
      }
      const lagMs = this.#lagMs();
      isLate ||= lagMs > 0;
      if (!isLate) {
        to.write(data);
        return;
      }
      const readyMs = performance.now() + lagMs;
      // The order stays: a late piece holds up those behind it.
      earlier = earlier.then(async () => {
        await sleep(Math.max(0, readyMs - performance.now()));
        if (!to.destroyed && this.#state === "open") to.write(data);
      });
    });
  }

  #lagMs(): number {
    const { delayMs, lostShare, repeatMs } = this.lag;
    return this.#random() < lostShare ? delayMs + repeatMs : delayMs;
  }
}
