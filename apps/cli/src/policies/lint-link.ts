/**
 * Lint link: the view of the web page that shows the linted documents with their findings: the
 * curve for one policy, the herd for several or for many clients, the system for anything else.
 */
import type { DestinationDocument, PolicyDocument, PresetName } from "@redrive/core";
import {
  assertStrategyCount,
  type CallsDocument,
  checkScenario,
  LINT_CLIENTS,
  type LintContext,
  type LintSubject,
  scenarios,
} from "@redrive/simulator";
import type { SharedRun } from "@redrive/simulator/share";
import { DEFAULT_SEED } from "../input/flags.ts";

export interface LintedDocument {
  readonly name: string;
  readonly document: LintSubject;
}

/** Undefined if the page has no view for the documents. */
export function lintRun(
  documents: readonly LintedDocument[],
  context: LintContext,
): SharedRun | undefined {
  const policies = documents.flatMap(({ name, document }) =>
    isPolicy(document) ? [{ name, policy: document }] : [],
  );
  if (policies.length < documents.length) return systemRun(documents, context);
  const [first, ...others] = policies;
  if (first === undefined) return undefined;
  const { clients, outageMs } = context;
  if (others.length === 0 && clients === undefined) {
    const { policy } = first;
    return {
      view: "curve",
      seed: DEFAULT_SEED,
      policy,
      ...(outageMs !== undefined && { outageMs }),
    };
  }
  assertStrategyCount("--link", policies.length);
  return {
    view: "herd",
    seed: DEFAULT_SEED,
    strategies: policies,
    clients: clients ?? LINT_CLIENTS,
    windowMs: WINDOW_MS,
  };
}

/** The default window of the herd view. */
const WINDOW_MS = 10;

function isPolicy(document: LintSubject): document is PolicyDocument | PresetName {
  return typeof document === "string" || !("policy" in document || "tiers" in document);
}

/** The built-in scenario `metastable` with the linted documents as its tiers. */
function systemRun(
  documents: readonly LintedDocument[],
  context: LintContext,
): SharedRun | undefined {
  const all = documents.map(({ name, document }) => scenarioOf(name, document, context));
  const isValid = all.every((scenario) => checkScenario(scenario).length === 0);
  return isValid ? { view: "system", seed: DEFAULT_SEED, scenarios: all } : undefined;
}

function scenarioOf(name: string, document: LintSubject, { clients }: LintContext): CallsDocument {
  const { description: _, ...shipped } = scenarios["metastable"] as CallsDocument;
  const server = shipped.tiers?.at(-1)?.server;
  const tiers = destinationsOf(document).map((destination, index, { length }) => ({
    destination,
    ...(index === length - 1 && server !== undefined && { server }),
  }));
  return {
    ...shipped,
    name: name
      .toLowerCase()
      .replace(/[^a-z0-9-]+/gu, "-")
      .slice(-64),
    clients: { ...shipped.clients, ...(clients !== undefined && { count: clients }) },
    tiers,
  };
}

function destinationsOf(document: LintSubject): readonly DestinationDocument[] {
  if (typeof document === "object" && "tiers" in document) {
    return document.tiers.map(({ policy, retryBudget }) => ({
      ...(policy !== undefined && { policy }),
      ...(retryBudget !== undefined && { retryBudget }),
    }));
  }
  return [isPolicy(document) ? { policy: document } : document];
}
