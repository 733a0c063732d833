/** When the store crashes or hangs, the fleet refuses tasks, loses none and continues by itself. */
// needs: postgres, redis, build
import { it } from "vitest";
import { describeFleets, ROUNDS } from "./fleet.ts";
import { crashStore, hangStore } from "./scenarios/outage.ts";

const RESTARTS = ROUNDS === 1 ? 2 : ROUNDS;
const HANG_MS = ROUNDS === 1 ? 8000 : 30_000;
/** Twenty crashes take longer than the usual limit of a test. */
const LONG_MS = 900_000;

const respond = () => ({ status: 200, afterMs: 20 });

describeFleets("an outage of the store", (open) => {
  it(`loses nothing in ${RESTARTS} crashes`, { timeout: LONG_MS }, async () => {
    await crashStore(await open({ respond }), RESTARTS);
  });

  it(`loses nothing while the store hangs for ${HANG_MS} ms`, async () => {
    await hangStore(await open({ respond }), HANG_MS);
  });
});
