/** Tests of the two resolvers of production, with names that need no name server. */
import { systemClock } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { createResolver } from "./create-resolver.ts";

describe.each(["dns", "system"] as const)("the resolver %s", (kind) => {
  it("resolves localhost to this machine", async () => {
    const addresses = await createResolver(systemClock, kind)("localhost", "t1");
    expect(addresses.map(({ address }) => address)).toContain("127.0.0.1");
  });

  it("shares one lookup between concurrent callers, and looks up again later", async () => {
    const resolve = createResolver(systemClock, kind);
    const first = resolve("localhost", "t1");
    expect(resolve("localhost", "t2")).toBe(first);
    await first;
    const later = resolve("localhost", "t1");
    expect(later).not.toBe(first);
    await later;
  });
});
