/**
 * Token queue: committed claims that wait for a token of their destination's rate, in the order of their
 * claims. Each destination has one alarm, for its next token.
 */
import type { Clock } from "@redrive/core";
import type { EngineTime } from "../time/engine-time.ts";

/** A destination whose calls may have to wait for a token. */
interface TokenSource {
  /** When the next call may be sent; `now`: at once. */
  startsAt(now: number): number;
}

interface TokenClaim {
  readonly destination: TokenSource;
  /** True while it waits. Setting it to false recalls the claim: it is not sent. */
  isWaiting: boolean;
  /** Until when it waits for a token; 0: it has not waited yet. */
  waitsUntil: number;
}

/**
 * A claim takes tokens of the next 50 ms, so this is rarely reached. A claim that waits longer, because
 * the document has changed or the node was late, is returned.
 */
const MAX_WAIT_MS = 200;

interface Waiting<Claim> {
  /** The claims before `first` have been sent. */
  readonly claims: Claim[];
  first: number;
}

export class TokenQueue<Claim extends TokenClaim> {
  readonly #clock: Clock;
  readonly #time: EngineTime;
  readonly #send: (claim: Claim) => void;
  readonly #waiting = new Map<TokenSource, Waiting<Claim>>();

  /** `send` is called when there is a token, or when there will be none in time. */
  constructor(clock: Clock, time: EngineTime, send: (claim: Claim) => void) {
    this.#clock = clock;
    this.#time = time;
    this.#send = send;
  }

  /** Others of the destination wait, so a new claim must wait behind them. */
  isWaiting(destination: TokenSource): boolean {
    return this.#waiting.has(destination);
  }

  /** There is no token now, but there will be one in time. */
  mayWait(claim: Claim, now: number): boolean {
    const startsAt = claim.destination.startsAt(now);
    return startsAt > now && startsAt <= (claim.waitsUntil || now + MAX_WAIT_MS);
  }

  add(claim: Claim): void {
    const { destination } = claim;
    claim.isWaiting = true;
    claim.waitsUntil ||= this.#time.now() + MAX_WAIT_MS;
    const waiting = this.#waiting.get(destination);
    if (waiting !== undefined) {
      waiting.claims.push(claim);
      return;
    }
    const added = { claims: [claim], first: 0 };
    this.#waiting.set(destination, added);
    this.#arm(destination, added);
  }

  #arm(destination: TokenSource, waiting: Waiting<Claim>): void {
    const now = this.#time.now();
    const waitsUntil = waiting.claims[waiting.first]?.waitsUntil ?? now;
    const at = Math.min(destination.startsAt(now), waitsUntil);
    this.#clock.alarm(this.#time.msUntil(at), () => this.#ring(destination, waiting));
  }

  #ring(destination: TokenSource, waiting: Waiting<Claim>): void {
    const now = this.#time.now();
    const { claims } = waiting;
    for (let claim = claims[waiting.first]; claim !== undefined; claim = claims[++waiting.first]) {
      if (!claim.isWaiting) continue;
      if (this.mayWait(claim, now)) {
        claims.splice(0, waiting.first);
        waiting.first = 0;
        this.#arm(destination, waiting);
        return;
      }
      claim.isWaiting = false;
      this.#send(claim);
    }
    this.#waiting.delete(destination);
  }
}
