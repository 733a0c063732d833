/** Runs the conformance suite on guarded stores: of an instance of a class, and of a guarded store. */
import { virtualClock } from "@redrive/core";
import { expect } from "vitest";
import { CommitMeter, guardedStore } from "../model/guarded-store.ts";
import { classStore } from "./class-store.testing.ts";
import { storeConformance } from "./conformance.testing.ts";
import { memoryStore } from "./memory/memory-store.ts";
import { T0 } from "./store.testing.ts";

const failed = (error: unknown) => expect.fail(`the store failed: ${error}`);

storeConformance("guarded class", async () => guardedStore(classStore(memoryStore()), { failed }));
storeConformance("twice guarded class", async () => {
  const clock = virtualClock(T0);
  const rules = { meter: new CommitMeter(clock), limit: { clock, ms: 5000 } };
  const inner = guardedStore(classStore(memoryStore({ exclusive: false })), rules);
  return guardedStore(inner, { failed, lifetime: { isClosed: false } });
});
