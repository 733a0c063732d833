/**
 * Simulations: runs scenarios with the simulator that the app passes in, within limits of time and number.
 * The service itself does not import the simulator.
 */
import { type Clock, DocumentError, type FieldProblem } from "@redrive/core";
import { serviceError } from "../../model/errors.ts";

/** The simulator, as the app provides it. */
export interface Simulator {
  /**
   * Simulates outside the main thread. Throws `INVALID_ARGUMENT` for an invalid scenario and
   * `SIMULATION_TOO_LARGE` for one that needs too much memory. Rejects with the signal's reason when it
   * is aborted.
   */
  run(scenario: unknown, seed: number | string, signal: AbortSignal): Promise<SimulatedRun>;
}

export interface SimulatedRun {
  /** The report of the simulator, as JSON text: it is large, and was made outside the main thread. */
  readonly reportJson: string;
  /** Opens the same run on the page of the simulator: the part of its address after `#`. */
  readonly link: string;
}

/** Simulations at once: of one tenant, and in all. */
const MAX_OF_TENANT = 1;
const MAX_IN_ALL = 2;

/** A longer simulation is ended. */
export const MAX_SIMULATION_MS = 10_000;

export class Simulations {
  readonly #clock: Clock;
  readonly #simulator: Simulator;

  // Mutable state: the running simulations, by tenant.
  readonly #running = new Map<string, number>();
  #total = 0;

  constructor(clock: Clock, simulator: Simulator) {
    this.#clock = clock;
    this.#simulator = simulator;
  }

  /** `signal`: the caller is gone. Throws `TOO_MANY_REQUESTS`, `SIMULATION_TOO_LARGE` or `INVALID_ARGUMENT`. */
  async run(
    tenantId: string,
    scenario: unknown,
    seed: number | string,
    signal: AbortSignal,
  ): Promise<SimulatedRun> {
    const running = this.#running.get(tenantId) ?? 0;
    if (running >= MAX_OF_TENANT || this.#total >= MAX_IN_ALL) throw busy(running > 0);
    this.#count(tenantId, running + 1, 1);
    const abort = new AbortController();
    const cancel = this.#clock.alarm(MAX_SIMULATION_MS, () => abort.abort(tooLong()), true);
    const stop = () => abort.abort(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    try {
      return await this.#simulator.run(scenario, seed, abort.signal);
    } catch (error) {
      throw error instanceof DocumentError ? inScenario(error) : error;
    } finally {
      cancel();
      signal.removeEventListener("abort", stop);
      this.#count(tenantId, (this.#running.get(tenantId) ?? 1) - 1, -1);
    }
  }

  #count(tenantId: string, running: number, change: number): void {
    this.#total += change;
    if (running === 0) this.#running.delete(tenantId);
    else this.#running.set(tenantId, running);
  }
}

function busy(isOwn: boolean): Error {
  const text = isOwn
    ? "a simulation of this tenant is running: wait for its end"
    : "other simulations are running: try again soon";
  return serviceError("TOO_MANY_REQUESTS", text);
}

function tooLong(): Error {
  const text = `the simulation took longer than ${MAX_SIMULATION_MS / 1000} s: use a shorter horizon, fewer calls, or \`redrive sim run\``;
  return serviceError("SIMULATION_TOO_LARGE", text);
}

/** The fields of a scenario are in the field `scenario` of the request. */
function inScenario({ problems }: DocumentError): Error {
  const prefixed = problems.map(
    ({ field, message, value }): FieldProblem => ({
      field: `scenario.${field}`,
      message: message.startsWith(field) ? `scenario.${message}` : message,
      value,
    }),
  );
  return new DocumentError("INVALID_ARGUMENT", prefixed);
}
