/**
 * Targets: what the simulated world answers. Each destination goes through phases of health and
 * sickness drawn from the seed; once the faults stop, all are well.
 */
import type { Outcome, Random } from "@redrive/core";

type Health = "well" | "flaky" | "down" | "slow" | "throttling" | "silent";

const HEALTHS: readonly Health[] = ["well", "flaky", "down", "slow", "throttling", "silent"];

/** How a request will end if nobody ends it before. */
export interface TargetResponse {
  readonly afterMs: number;
  readonly outcome: Outcome;
}

/** Longer than any attempt is given. */
const NO_RESPONSE_MS = 600_000;

export class Targets {
  readonly #random: Random;
  readonly #phases: readonly (readonly Health[])[];
  readonly #startAt: number;
  readonly #phaseMs: number;
  isHealed = false;

  constructor(random: Random, destinations: number, startAt: number, phaseMs: number) {
    this.#random = random;
    this.#startAt = startAt;
    this.#phaseMs = phaseMs;
    this.#phases = Array.from({ length: destinations }, () =>
      Array.from({ length: 16 }, () => (random.next() < 0.4 ? "well" : this.#drawHealth())),
    );
  }

  #drawHealth(): Health {
    return HEALTHS[Math.floor(this.#random.next() * HEALTHS.length)] ?? "well";
  }

  respond(destination: string, now: number): TargetResponse {
    const phases = this.#phases[Number(destination.slice(1))] ?? [];
    const phase = Math.floor((now - this.#startAt) / this.#phaseMs) % phases.length;
    return this.#responseFor(this.isHealed ? "well" : (phases[phase] ?? "well"));
  }

  #responseFor(health: Health): TargetResponse {
    const draw = this.#random.next();
    const afterMs = 5 + Math.floor(this.#random.next() * 40);
    switch (health) {
      case "well":
        return { afterMs, outcome: { kind: "success", status: 200 } };
      case "flaky":
        return { afterMs, outcome: draw < 0.5 ? { kind: "status", status: 500 } : SUCCESS };
      case "down":
        return { afterMs, outcome: draw < 0.5 ? REFUSED : { kind: "status", status: 503 } };
      case "slow":
        return { afterMs: Math.floor(draw * 4000), outcome: SUCCESS };
      case "throttling": {
        const retryAfterMs = 1000 + Math.floor(draw * 2000);
        return { afterMs, outcome: { kind: "status", status: 429, retryAfterMs } };
      }
      case "silent":
        return { afterMs: draw < 0.5 ? NO_RESPONSE_MS : afterMs, outcome: SUCCESS };
    }
  }
}

const SUCCESS: Outcome = { kind: "success", status: 200 };
const REFUSED: Outcome = { kind: "error", errorClass: "connect", sent: false };
