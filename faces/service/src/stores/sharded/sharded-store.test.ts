/** Runs the conformance suite on a store of two and of three shards in memory. */
import { storeConformance } from "../conformance.testing.ts";
import { memoryStore } from "../memory/memory-store.ts";
import { shardedStore } from "./sharded-store.ts";

const shards = (count: number) =>
  shardedStore(Array.from({ length: count }, () => memoryStore({ exclusive: false })));

storeConformance("two shards", async () => shards(2));
storeConformance("three shards", async () => shards(3));
