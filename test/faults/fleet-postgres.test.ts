/** The faults of a fleet on PostgreSQL, in their short form. */
// needs: postgres, build
import { describeShortFaults } from "../fleet/scenarios/short.ts";

describeShortFaults("postgres");
