/** Requests: what the worker can be asked, by kind; a new kind is a line here and one in the worker. */
import type { PolicyDocument } from "@redrive/core";
import type {
  Answers,
  Herd,
  HerdOptions,
  LabOptions,
  LabReport,
  LintContext,
  LintSubject,
  Report,
  ScenarioDocument,
} from "@redrive/simulator";
import type { AdviceResult } from "./advice-requests.ts";
import type { LabEntry } from "./lab-requests.ts";
import type { FixableFinding } from "./lint-requests.ts";
import type { StrategyInput, StrategyMeasures } from "./strategy-requests.ts";

export interface Requests {
  readonly strategies: {
    readonly input: StrategyInput;
    readonly output: readonly StrategyMeasures[];
  };
  readonly herd: {
    readonly input: { readonly policy: PolicyDocument; readonly options: HerdOptions };
    readonly output: Herd;
  };
  readonly coverage: {
    readonly input: {
      readonly policy: PolicyDocument;
      readonly outageMs: number;
      readonly seed: number | string;
      readonly samples: number;
      /** Every answer carries this hint. Default: 0, none does. */
      readonly retryAfterMs?: number;
    };
    readonly output: number;
  };
  readonly simulate: {
    readonly input: { readonly scenario: ScenarioDocument; readonly seed: number | string };
    readonly output: Report;
  };
  readonly lab: {
    readonly input: { readonly id: string; readonly options: LabOptions };
    readonly output: LabReport;
  };
  readonly lint: {
    readonly input: { readonly subject: LintSubject; readonly context: LintContext };
    readonly output: readonly FixableFinding[];
  };
  readonly labs: {
    readonly input: Readonly<Record<string, never>>;
    readonly output: readonly LabEntry[];
  };
  readonly advise: {
    readonly input: { readonly answers: Answers };
    readonly output: AdviceResult;
  };
}

export type RequestKind = keyof Requests;
export type Input<K extends RequestKind> = Requests[K]["input"];
export type Output<K extends RequestKind> = Requests[K]["output"];

/** Tells the page how much of the work is done, 0 to 1. */
export type OnProgress = (share: number) => void;

export type Handlers = {
  readonly [K in RequestKind]: (
    input: Input<K>,
    tell: OnProgress,
  ) => Output<K> | Promise<Output<K>>;
};

/** What goes to the worker. */
export interface WorkerRequest {
  readonly id: number;
  readonly kind: RequestKind;
  readonly input: unknown;
}

/** What comes back: one of the three; `progress` any number of times before the others. */
export interface WorkerResponse {
  readonly id: number;
  readonly progress?: number;
  readonly output?: unknown;
  readonly problem?: string;
}
