/** Tests where tasks, destinations and tenants are. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { partitionOf } from "../../model/partition.ts";
import { ShardLayout } from "./shard-layout.ts";

const idOf = (byte: number) =>
  `00000000-0000-7000-80${byte.toString(16).padStart(2, "0")}-000000000000`;

const counts = fc.integer({ min: 2, max: 64 });
const bytes = fc.integer({ min: 0, max: 255 });

describe("the layout", () => {
  it("gives each partition of a shard its own partition in the store of the shard", () => {
    fc.assert(
      fc.property(counts, bytes, (count, byte) => {
        const layout = new ShardLayout(count, 64);
        expect(256 % layout.partitions).toBe(0);
        const shard = layout.shardOfTask(idOf(byte));
        const local = partitionOf(idOf(byte), 64);
        const global = partitionOf(idOf(byte), layout.partitions);
        expect(layout.shardOfPartition(global)).toBe(shard);
        expect(layout.localOf(global)).toBe(local);
        expect(layout.globalOf(shard, local)).toBe(global);
        const locals = layout.partitionsOf(shard).map((one) => layout.localOf(one));
        expect(new Set(locals).size).toBe(locals.length);
      }),
    );
  });

  it("divides the partitions equally", () => {
    for (let count = 2; count <= 64; count++) {
      const layout = new ShardLayout(count, 64);
      const sizes = Array.from({ length: count }, (_, shard) => layout.partitionsOf(shard).length);
      expect(sizes.reduce((sum, size) => sum + size)).toBe(layout.partitions);
      expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
    }
  });

  it("spreads destinations over all shards", () => {
    const layout = new ShardLayout(10, 64);
    const homes = Array.from({ length: 1000 }, (_, n) => layout.homeOf("t", `https://host-${n}`));
    const sizes = Array.from({ length: 10 }, (_, shard) => homes.filter((h) => h === shard).length);
    expect(Math.min(...sizes)).toBeGreaterThan(60);
    expect(Math.max(...sizes)).toBeLessThan(140);
  });

  it("keeps everything of a tenant on its shards", () => {
    const layout = new ShardLayout(5, 64, new Map([["pinned", [1, 4]]]));
    fc.assert(
      fc.property(fc.string(), bytes, (name, byte) => {
        expect([1, 4]).toContain(layout.homeOf("pinned", name));
        expect([1, 4]).toContain(layout.shardOfByte(layout.byteFor("pinned", byte)));
        expect(layout.byteFor("other", byte)).toBe(byte);
      }),
    );
  });
});
