/** Simulation schemas: the request and the response of a simulation, as JSON Schema and as types. */
import type { Static } from "typebox";
import { Type } from "./schema-builder.ts";

const Seed = Type.Union([Type.Integer({ minimum: 0 }), Type.String({ maxLength: 64 })], {
  description: "The same seed gives the same result. Default: 1.",
});

export const SimulationToRun = Type.Object(
  {
    scenario: Type.Optional(
      Type.Unsafe<object>({
        type: "object",
        description: "A scenario of the simulator. Either this, or a destination.",
      }),
    ),
    destination: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 255,
        description: "Simulates an outage of this destination, as the service has measured it.",
      }),
    ),
    outageMs: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 82_800_000, description: "The length of the outage." }),
    ),
    policyId: Type.Optional(
      Type.String({
        maxLength: 64,
        description: "The policy to try. Default: that of the destination, or background.",
      }),
    ),
    policy: Type.Optional(
      Type.Unsafe<object>({ type: "object", description: "A policy document instead." }),
    ),
    ratePerSecond: Type.Optional(
      Type.Number({
        minimum: 0.001,
        maximum: 100_000,
        description: "New calls per second, instead of the measured ones.",
      }),
    ),
    latencyMs: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: 86_400_000,
        description: "The duration of every call, instead of the measured ones.",
      }),
    ),
    seed: Type.Optional(Seed),
  },
  { additionalProperties: false },
);
export type SimulationToRun = Static<typeof SimulationToRun>;

const Latency = Type.Object({ p50Ms: Type.Number(), p99Ms: Type.Number() });

export const SimulationInputs = Type.Object({
  destination: Type.String(),
  policyId: Type.Union([Type.String(), Type.Null()], {
    description: "Null: the policy of the request, or of the destination's document.",
  }),
  outageMs: Type.Integer(),
  ratePerSecond: Type.Number(),
  measuredMinutes: Type.Integer({ description: "0: the request gave the rate." }),
  failureShare: Type.Number({ description: "Reported, and not simulated." }),
  latency: Latency,
  waiting: Type.Integer(),
  inFlight: Type.Integer(),
  concurrency: Type.Union([
    Type.Object({ inFlight: Type.Number(), limit: Type.Number() }),
    Type.Null(),
  ]),
  breakerState: Type.String(),
  retryBudget: Type.String(),
  notes: Type.Array(Type.String(), { description: "What the scenario leaves out." }),
});
export type SimulationInputs = Static<typeof SimulationInputs>;

export const SimulationView = Type.Object({
  scenario: Type.Unsafe<object>({ type: "object", additionalProperties: true }),
  seed: Seed,
  inputs: Type.Union([SimulationInputs, Type.Null()], {
    description: "What the service filled in; null: the request contained the scenario.",
  }),
  pageUrl: Type.String({ description: "Opens the same run in the simulator of this service." }),
  report: Type.Unsafe<Readonly<Record<string, unknown>>>({
    type: "object",
    additionalProperties: true,
    description: "The report of the simulator, as `redrive sim run --json` prints it.",
  }),
});
export type SimulationView = Static<typeof SimulationView>;
