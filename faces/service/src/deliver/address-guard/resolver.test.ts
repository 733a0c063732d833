/** Tests of name resolution: one answer, checked and used, within its deadline. */
import { describe, expect, it } from "vitest";
import { systemResolver } from "./resolver.ts";

describe("the system's resolver", () => {
  it("knows this machine", async () => {
    const addresses = await systemResolver()("localhost");
    expect(addresses.map(({ address }) => address)).toContain("127.0.0.1");
  });

  it("looks a name up once for all who ask meanwhile, and again later", async () => {
    const resolve = systemResolver();
    const first = resolve("localhost");
    expect(resolve("localhost")).toBe(first);
    await first;
    const later = resolve("localhost");
    expect(later).not.toBe(first);
    await later;
  });
});
