/** The faults of a fleet on Redis, in their short form. */
// needs: redis, build
import { describeShortFaults } from "../fleet/scenarios/short.ts";

describeShortFaults("redis");
