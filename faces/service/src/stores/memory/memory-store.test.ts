/** The memory store is held to the conformance suite, as a node's own and as a fleet's. */
import { storeConformance } from "../conformance.testing.ts";
import { memoryStore } from "./memory-store.ts";

storeConformance("exclusive memory", async () => memoryStore());
storeConformance("shared memory", async () => memoryStore({ exclusive: false }));
