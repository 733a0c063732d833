/** Tests that a reader that reconnects gets exactly the events that it missed, while they are kept. */
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type EngineEvent, type EngineEventBody, EngineEvents } from "./events.ts";

const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });
const summaries = fc.record({
  outcome: fc.constantFrom("success", "status", "error"),
  responseStatus: fc.option(fc.nat(599)),
  errorClass: fc.option(fc.constantFrom("timeout", "dns")),
  durationMs: fc.nat(),
  nextDelayMs: fc.option(fc.nat()),
  delaySource: fc.option(fc.constantFrom("policy", "retry-after")),
  settleMs: fc.nat(),
});
const bodies = fc.record({
  type: fc.constantFrom("task.created", "attempt.started", "attempt.failed", "node.failed"),
  tenantId: maybe(fc.string()),
  taskId: maybe(fc.string()),
  destination: maybe(fc.string()),
  reason: maybe(fc.string()),
  by: maybe(fc.constantFrom("rate", "pause")),
  heldBy: maybe(fc.constantFrom("rate", "pause")),
  policyId: maybe(fc.string()),
  attemptNumber: maybe(fc.nat()),
  nextAttemptAt: maybe(fc.nat()),
  createdAt: maybe(fc.nat()),
  lagMs: maybe(fc.nat()),
  labels: maybe(fc.constant({ team: "x" })),
  waits: maybe(fc.constant([{ cause: "rate", sinceAt: 1, durationMs: 200 }])),
  attempt: maybe(summaries),
});

describe("the event ring", () => {
  it("returns every event as it was emitted, in order", () => {
    fc.assert(
      fc.property(
        fc.array(bodies, { minLength: 1, maxLength: 30 }),
        fc.nat(29),
        (emitted, draw) => {
          const events = new EngineEvents("node-7");
          const heard: EngineEvent[] = [];
          events.listen((event) => heard.push(event));
          for (const [at, body] of emitted.entries()) events.emit(at, body as EngineEventBody);
          const from = draw % emitted.length;
          expect(events.after(heard[from]?.id ?? "")).toEqual(heard.slice(from + 1));
        },
      ),
    );
  });

  it("keeps the latest ten thousand events and no others", () => {
    const events = new EngineEvents("n");
    const ids: string[] = [];
    events.listen(({ id }) => ids.push(id));
    for (let at = 1; at <= 25_000; at++) events.emit(at, { type: "task.created" });
    expect(events.after(ids.at(-1) ?? "")).toEqual([]);
    const oldest = ids.at(-10_000) ?? "";
    expect(events.after(oldest)).toHaveLength(9999);
    expect(events.after(oldest)?.[0]).toEqual({
      id: ids.at(-9999),
      at: 15_002,
      type: "task.created",
    });
    expect(events.after(ids.at(-10_001) ?? "")).toBeUndefined();
    for (const unknown of ["n-0", "n-25001", "n-", "m-25000", "n-1.5", ""]) {
      expect(events.after(unknown)).toBeUndefined();
    }
  });
});

describe("a listener that fails", () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it("is reported on the console, and the other listeners and the process continue", async () => {
    const report = vi.spyOn(console, "error").mockImplementation(() => {});
    const events = new EngineEvents("n");
    const [thrown, rejected] = [new Error("thrown"), new Error("rejected")];
    const heard: string[] = [];
    events.listen(() => {
      throw thrown;
    });
    events.listen(async () => {
      throw rejected;
    });
    events.listen(({ type }) => heard.push(type));
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    events.emit(1, { type: "task.created" });
    // Node reports unhandled rejections when the queue of microtasks is empty.
    await new Promise((resolve) => setImmediate(resolve));
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
    expect(heard).toEqual(["task.created"]);
    expect(report.mock.calls).toEqual([
      ["redrive:", thrown],
      ["redrive:", rejected],
    ]);
  });
});
