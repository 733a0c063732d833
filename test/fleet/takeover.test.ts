/** When a node of three is killed, the others end all of its tasks in time and send nothing twice. */
// needs: postgres, redis, build
import { it } from "vitest";
import { describeFleets, ROUNDS } from "./fleet.ts";
import { killAndTakeOver, unreliably } from "./scenarios/takeover.ts";

/** What the service promises with its default lease of 10 s. */
const TAKEOVER_MS = 15_000;

describeFleets("a killed node", (open) => {
  it.each(Array.from({ length: ROUNDS }, (_, round) => round + 1))(
    "loses no task, and the others take over in time (round %i)",
    async () => {
      await killAndTakeOver(await open({ respond: unreliably }), TAKEOVER_MS);
    },
  );
});
