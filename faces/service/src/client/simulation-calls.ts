/** Simulation calls: the part of the client for simulations. */
import type { SimulationToRun, SimulationView } from "../schemas/simulation-schemas.ts";
import type { Transport } from "./transport.ts";

export interface SimulationCalls {
  /** Simulates a scenario, or an outage of a destination as the service has measured it. */
  simulate(simulation: SimulationToRun): Promise<SimulationView>;
}

export function simulationCalls({ request }: Transport): SimulationCalls {
  return {
    simulate: (simulation) =>
      request({ method: "POST", path: ["simulations"], body: simulation }, "report"),
  };
}
