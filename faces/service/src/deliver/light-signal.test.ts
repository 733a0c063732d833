/** Tests of the light signal: it must do all that an attempt asks of an abort signal. */
import { describe, expect, it } from "vitest";
import { createLightSignal } from "./light-signal.ts";

describe("a light signal", () => {
  it("tells its listener once, with the reason at hand", () => {
    const signal = createLightSignal();
    const told: unknown[] = [];
    signal.addEventListener("abort", () => told.push(signal.reason));
    signal.abort("first");
    signal.abort("second");
    expect([told, signal.aborted]).toEqual([["first"], true]);
  });

  it("tells nobody who has left", () => {
    const signal = createLightSignal();
    const told: string[] = [];
    const left = () => told.push("left");
    signal.addEventListener("abort", left);
    signal.removeEventListener("abort", left);
    signal.abort();
    expect([told, signal.aborted]).toEqual([[], true]);
  });
});
