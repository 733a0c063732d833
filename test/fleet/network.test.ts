/** Nodes survive a network that cuts, silences or delays their store, and lose no task. */
// needs: postgres, redis, build
import { expect, it } from "vitest";
import { describeFleets, ROUNDS } from "./fleet.ts";
import { cutOff, cutResponses, slowNetwork } from "./scenarios/network.ts";
import { slowly } from "./scenarios/zombie.ts";

const isLong = ROUNDS > 1;
const CUT_MS = isLong ? 30_000 : 8000;
const CUT_RESPONSES = 25 * ROUNDS;
/** The share of the usual throughput that a lossy network must leave. */
const LOSSY_SHARE = 0.3;
const LONG_MS = 900_000;

describeFleets("a node that loses the store", (open) => {
  // Silent connections stay open and carry nothing, so that neither side learns of the cut.
  it.each(["refused", "silent"] as const)(
    `is replaced by the others for ${CUT_MS} ms, and then works again (connections are %s)`,
    async (state) => {
      await cutOff(
        await open({ respond: slowly, ...(!isLong && { leaseMs: 1500 }) }),
        state,
        CUT_MS,
      );
    },
  );
});

describeFleets(
  "nodes whose store has done what they asked, but whose responses are lost",
  (open) => {
    it(`lose no task and store none twice in ${CUT_RESPONSES} losses`, {
      timeout: LONG_MS,
    }, async () => {
      const fleet = await open({ respond: () => ({ status: 200, afterMs: 20 }) });
      await cutResponses(fleet, CUT_RESPONSES);
    });
  },
);

describeFleets("a network with 200 ms per round trip that loses a fifth of the packets", (open) => {
  it("leaves at least 30 % of the throughput, and no node loses its lease", async () => {
    expect(await slowNetwork(await open({ respond: slowly }))).toBeGreaterThan(LOSSY_SHARE);
  });
});
