/** Traced: a destination that records its calls as spans and metrics. */
import { type Meter, metrics, type Tracer, trace } from "@opentelemetry/api";
import type { CallEvent } from "../call/call-event.ts";
import type { Operation, RunOptions } from "../call/options.ts";
import type { Destination } from "../destination/destination.ts";
import { wrapFunction } from "../destination/wrapped-function.ts";
import { observeGuards } from "./guard-gauges.ts";
import { createInstruments } from "./instruments.ts";
import { SCOPE } from "./scope.ts";
import { TracedCall } from "./traced-call.ts";

export interface TelemetryOptions {
  /** Default: the global provider's `redrive`. */
  readonly tracer?: Tracer | undefined;
  /** Default: the global provider's `redrive`. */
  readonly meter?: Meter | undefined;
}

/**
 * Returns the destination with a span per call, a child span per attempt, metrics of its calls and the
 * state of its guards. The operation runs inside the span of its attempt, so its own spans become children
 * of it. `[Symbol.dispose]` ends the observation of the guards.
 */
export function traced(destination: Destination, options: TelemetryOptions = {}): Destination {
  const { tracer = trace.getTracer(SCOPE), meter = metrics.getMeter(SCOPE) } = options;
  const instruments = createInstruments(meter);
  const stopObserving = observeGuards(meter, destination);

  function run<T>(fn: Operation<T>, overrides: RunOptions<T> = {}): Promise<T> {
    const call = new TracedCall(destination, tracer, instruments, overrides);
    const onEvent = (event: CallEvent) => call.handleEvent(event);
    return call.follow(
      destination.run((context) => call.attempt(fn, context), { ...overrides, onEvent }),
    );
  }

  return {
    name: destination.name,
    policy: destination.policy,
    clock: destination.clock,
    classify: destination.classify,
    run,
    wrap: (fn, overrides) => wrapFunction({ run }, fn, overrides),
    wrapWithContext: (fn, overrides) => wrapFunction({ run }, fn, overrides, true),
    on: (type, listener) => destination.on(type, listener),
    stats: () => destination.stats(),
    save: () => destination.save(),
    [Symbol.dispose]() {
      stopObserving();
      destination[Symbol.dispose]();
    },
  };
}
