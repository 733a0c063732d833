/** Requests: the kinds of worker requests. A new kind needs an entry here and a handler in the worker. */
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
      /** The Retry-After hint of every response. Default: 0, no hint. */
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

/** Reports the share of the work that is done, 0 to 1. */
export type OnProgress = (share: number) => void;

export type Handlers = {
  readonly [K in RequestKind]: (
    input: Input<K>,
    onProgress: OnProgress,
  ) => Output<K> | Promise<Output<K>>;
};

/** The message to the worker. */
export interface WorkerRequest {
  readonly id: number;
  readonly kind: RequestKind;
  readonly input: unknown;
}

/** The message from the worker: `progress` any number of times, then `output` or `problem`. */
export interface WorkerResponse {
  readonly id: number;
  readonly progress?: number;
  readonly output?: unknown;
  readonly problem?: string;
}
