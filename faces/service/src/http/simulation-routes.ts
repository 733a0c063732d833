/**
 * Simulation routes: simulate a scenario, or an outage of a destination as the service has measured it.
 * The simulator is a capability of the app; without it the route says so.
 */
import {
  DocumentError,
  fieldProblem,
  type PolicyDocument,
  type PresetName,
  resolvePolicy,
} from "@redrive/core";
import type { FastifyReply, FastifyRequest } from "fastify";
import { presetOf } from "../intake/policies.ts";
import { assertDestinationName } from "../model/destination-row.ts";
import { serviceError } from "../model/errors.ts";
import { measuredScenario } from "../operations/simulations.ts";
import {
  type SimulationInputs,
  SimulationToRun,
  SimulationView,
} from "../schemas/simulation-schemas.ts";
import { type AddRoutes, type HttpContext, signalOf, tenantOf } from "./http-context.ts";

const DEFAULT_SEED = 1;

/** What the service uses for a task without a policy. */
const DEFAULT_POLICY: PresetName = "background";

export const addSimulationRoutes: AddRoutes = (app, context) => {
  app.post<{ Body: SimulationToRun }>(
    "/simulations",
    {
      // The simulation has a limit of its own, and reads of the store are limited separately.
      config: { scope: "tasks:read", limit: "own" },
      schema: {
        tags: ["simulations"],
        summary: "Simulate a scenario, or an outage of a destination",
        description:
          "Takes a scenario of the simulator, or a destination and the length of an outage. For a destination, the rate of calls, the latency, the guards and the number of waiting tasks are those that this node has measured; `inputs` says which. Runs outside the main thread, at most one per tenant at once and for at most 10 s.",
        body: SimulationToRun,
        response: { 200: SimulationView },
      },
    },
    (request, reply) => runSimulation(context, request, reply),
  );
};

async function runSimulation(
  context: HttpContext,
  request: FastifyRequest<{ Body: SimulationToRun }>,
  reply: FastifyReply,
) {
  const { simulations } = context;
  if (simulations === undefined) {
    throw serviceError("NOT_FOUND", "this service has no simulator: `redrive serve` has one");
  }
  const { seed = DEFAULT_SEED } = request.body;
  const { scenario, inputs } = await context.limit.guard(scenarioOf(context, request));
  const signal = signalOf(request, reply);
  const run = await simulations.run(tenantOf(request), scenario, seed, signal);
  const view = { scenario, seed, inputs, pageUrl: `/ui/simulator#${run.link}` };
  reply.type("application/json; charset=utf-8");
  // The report is text already, because it was made outside the main thread.
  return `${JSON.stringify(view).slice(0, -1)},"report":${run.reportJson}}`;
}

interface ScenarioToRun {
  readonly scenario: object;
  readonly inputs: SimulationInputs | null;
}

async function scenarioOf(
  context: HttpContext,
  request: FastifyRequest<{ Body: SimulationToRun }>,
): Promise<ScenarioToRun> {
  const { scenario, seed: _, ...question } = request.body;
  if (scenario === undefined) return scenarioOfDestination(context, request);
  const [extra] = Object.keys(question);
  if (extra === undefined) return { scenario, inputs: null };
  throw wrong(extra, request.body, `${extra} must not be given with a scenario`);
}

async function scenarioOfDestination(
  { redrive }: HttpContext,
  request: FastifyRequest<{ Body: SimulationToRun }>,
): Promise<ScenarioToRun> {
  const { destination, outageMs, ratePerSecond, latencyMs, policyId = null } = request.body;
  const tenantId = tenantOf(request);
  if (destination === undefined) {
    throw wrong("destination", request.body, "destination must be given, or a scenario");
  }
  if (outageMs === undefined) throw wrong("outageMs", request.body, "outageMs must be given");
  assertDestinationName(destination);
  const health = await redrive.healthOf(destination, tenantId);
  if (health === null) {
    throw serviceError("NOT_FOUND", `there is no destination ${JSON.stringify(destination)}`);
  }
  const now = redrive.now();
  const activity = redrive.activity.ofDestination(tenantId, destination, now);
  const given = await policyOf(redrive, request.body, tenantId);
  const { policy: named = DEFAULT_POLICY, policyVersion } = health.document ?? {};
  const own = { policyId: named as string, version: policyVersion };
  const policy =
    given ?? (typeof named === "string" ? await namedPolicy(redrive, own, tenantId) : named);
  const { scenario, inputs } = measuredScenario(
    { health, activity, policy, now },
    { outageMs, ratePerSecond, latencyMs },
  );
  return { scenario, inputs: { ...inputs, policyId, notes: [...inputs.notes] } };
}

/** Undefined: the request names none. */
async function policyOf(
  { policies }: HttpContext["redrive"],
  { policyId, policy }: SimulationToRun,
  tenantId: string,
): Promise<PolicyDocument | PresetName | undefined> {
  if (policy !== undefined && policyId !== undefined) {
    throw wrong("policy", { policy: policyId }, "policy and policyId must not both be given");
  }
  if (policy !== undefined) resolvePolicy(policy);
  return policyId === undefined ? policy : namedPolicy({ policies }, { policyId }, tenantId);
}

async function namedPolicy(
  { policies }: Pick<HttpContext["redrive"], "policies">,
  { policyId, version }: { readonly policyId: string; readonly version?: number | undefined },
  tenantId: string,
): Promise<PolicyDocument> {
  const row = await policies.get(policyId, tenantId, version);
  if (row !== null) return JSON.parse(row.document) as PolicyDocument;
  const preset = presetOf(policyId);
  if (preset !== undefined) return preset;
  throw policies.unknown("UNKNOWN_POLICY", tenantId, policyId);
}

function wrong(field: string, body: object, message: string): Error {
  const value = (body as Readonly<Record<string, unknown>>)[field];
  return new DocumentError("INVALID_ARGUMENT", [fieldProblem(field, value, message)]);
}
