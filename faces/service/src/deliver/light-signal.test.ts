/**
 * Tests of the light signal: it must support everything that an attempt needs of an abort signal.
 */
import { describe, expect, it } from "vitest";
import { createLightSignal } from "./attempt.ts";

describe("a light signal", () => {
  it("calls its listener once, with the reason set", () => {
    const signal = createLightSignal();
    const told: unknown[] = [];
    signal.addEventListener("abort", () => told.push(signal.reason));
    signal.abort("first");
    signal.abort("second");
    expect([told, signal.aborted]).toEqual([["first"], true]);
  });

  it("does not call a removed listener", () => {
    const signal = createLightSignal();
    const told: string[] = [];
    const left = () => told.push("left");
    signal.addEventListener("abort", left);
    signal.removeEventListener("abort", left);
    signal.abort();
    expect([told, signal.aborted]).toEqual([[], true]);
  });
});
