/** Simulation worker: runs one scenario of `POST /simulations` outside the main thread of the service. */
import { parentPort } from "node:worker_threads";
import { DocumentError, type FieldProblem, messageOf, RedriveError } from "@redrive/core";
import { type CallsDocument, type ScenarioDocument, simulate } from "@redrive/simulator";
import { encodeRun } from "@redrive/simulator/share";

export interface SimulationOrder {
  readonly scenario: unknown;
  readonly seed: number | string;
}

/** An error without a code is a bug of the simulator. */
export type SimulationReply =
  | { readonly kind: "done"; readonly reportJson: string; readonly link: string }
  | { readonly kind: "invalid"; readonly problems: readonly FieldProblem[] }
  | { readonly kind: "failed"; readonly message: string; readonly isRefused: boolean };

/** A simulation of the command line may have more. Each client takes memory. */
const MAX_CLIENTS = 100_000;

parentPort?.on("message", (order: SimulationOrder) => {
  parentPort?.postMessage(replyTo(order));
});

function replyTo({ scenario, seed }: SimulationOrder): SimulationReply {
  try {
    const document = scenario as ScenarioDocument;
    const problems = sizeProblems(document);
    if (problems.length > 0) return { kind: "invalid", problems };
    const report = simulate(document, { seed });
    const link = encodeRun({ view: "system", seed, scenarios: [document] });
    return { kind: "done", reportJson: JSON.stringify(report, plainArrays), link };
  } catch (error) {
    if (error instanceof DocumentError) return { kind: "invalid", problems: plain(error.problems) };
    const message = messageOf(error);
    return { kind: "failed", message, isRefused: error instanceof RedriveError };
  }
}

/** Other fields are checked by the simulator. */
function sizeProblems(scenario: ScenarioDocument): readonly FieldProblem[] {
  const { count } = (scenario as CallsDocument | null)?.clients ?? {};
  if (typeof count !== "number" || count <= MAX_CLIENTS) return [];
  const message = `clients.count must be at most ${MAX_CLIENTS} in a service, got ${count}; \`redrive sim run\` allows more`;
  return [{ field: "clients.count", value: count, message }];
}

/** A value may be something that cannot be sent between threads. */
function plain(problems: readonly FieldProblem[]): readonly FieldProblem[] {
  return problems.map(({ field, message }) => ({ field, message, value: undefined }));
}

/** Columns of numbers become lists. */
function plainArrays(_key: string, value: unknown): unknown {
  return value instanceof Float64Array ? [...value] : value;
}
