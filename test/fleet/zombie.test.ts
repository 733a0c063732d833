/** A node that is stopped for longer than its lease and then continues overwrites nothing. */
// needs: postgres, redis, build
import { it } from "vitest";
import { describeFleets, ROUNDS } from "./fleet.ts";
import { slowly, suspendPastLease, suspendWithinLease } from "./scenarios/zombie.ts";

const LEASE_MS = 1500;
/** Less than the default lease of 10 s. */
const PAUSE_MS = 6000;

describeFleets("a node that is stopped for longer than its lease", (open) => {
  it.each(Array.from({ length: ROUNDS }, (_, round) => round + 1))(
    "stores nothing late, and then works again (round %i)",
    async () => {
      await suspendPastLease(await open({ respond: slowly, leaseMs: LEASE_MS }));
    },
  );
});

describeFleets("a node that is stopped for less than its lease", (open) => {
  it("repeats nothing, and keeps its lease", async () => {
    await suspendWithinLease(await open({ respond: slowly }), PAUSE_MS);
  });
});
