/** The faults of a fleet, in their short form, on both stores. */
// needs: postgres, redis, build
import { describeShortFaults } from "../fleet/scenarios/short.ts";

describeShortFaults();
