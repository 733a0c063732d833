/** Tests of the live list, against a set. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { LiveList } from "./live-list.ts";

test("has what a set would have", () => {
  const step = fc.tuple(fc.boolean(), fc.nat(7));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: "max" }), (steps) => {
      const members = Array.from({ length: 8 }, (_, name) => ({ name, index: -1 }));
      const list = new LiveList<(typeof members)[number]>();
      const set = new Set<number>();
      for (const [adds, name] of steps) {
        const member = members[name] as (typeof members)[number];
        if (!adds) list.remove(member);
        else if (!set.has(name)) list.add(member);
        if (adds) set.add(name);
        else set.delete(name);
        expect(
          list
            .all()
            .map((one) => one.name)
            .toSorted(),
        ).toEqual([...set].toSorted());
      }
    }),
  );
});
