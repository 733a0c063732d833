/** Runs the conformance suite on wrapped stores that are instances of a class. */
import { virtualClock } from "@redrive/core";
import { expect } from "vitest";
import { codedStore, meteredStore } from "../model/store-wrappers.ts";
import { classStore } from "./class-store.testing.ts";
import { storeConformance } from "./conformance.testing.ts";
import { memoryStore } from "./memory/memory-store.ts";
import { T0 } from "./store.testing.ts";

const fail = (error: unknown) => expect.fail(`the store failed: ${error}`);

storeConformance("coded class", async () => codedStore(classStore(memoryStore()), fail));
storeConformance(
  "metered class",
  async () => meteredStore(virtualClock(T0), classStore(memoryStore({ exclusive: false }))).store,
);
