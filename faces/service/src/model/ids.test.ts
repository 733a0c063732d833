/** Tests of task ids: they sort by age and never repeat. */
import { describe, expect, it } from "vitest";
import { uuidV7 } from "./ids.ts";

describe("ids", () => {
  it("are UUIDs of version 7 that strictly increase, also within a millisecond", () => {
    let seed = 1;
    const newId = uuidV7((bytes) => {
      for (let index = 0; index < bytes.length; index++) {
        seed = (seed * 48_271) % 2_147_483_647;
        bytes[index] = seed;
      }
    });
    const ids = Array.from({ length: 20_000 }, (_, n) =>
      newId(1_800_000_000_000 + Math.floor(n / 9000)),
    );
    const UUID = /^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/;
    expect(ids.filter((id) => !UUID.test(id))).toEqual([]);
    expect(ids.filter((id, n) => n > 0 && id <= (ids[n - 1] ?? ""))).toEqual([]);
  });

  it("contain their instant", () => {
    const id = uuidV7(() => {})(1_800_000_000_000);
    expect(Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16)).toBe(1_800_000_000_000);
  });
});
