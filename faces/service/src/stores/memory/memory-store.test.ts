/** Runs the conformance suite on the memory store, both exclusive and shared. */
import { storeConformance } from "../conformance.testing.ts";
import { memoryStore } from "./memory-store.ts";

storeConformance("exclusive memory", async () => memoryStore());
storeConformance("shared memory", async () => memoryStore({ exclusive: false }));
