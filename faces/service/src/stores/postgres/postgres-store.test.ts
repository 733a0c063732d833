/** Runs the conformance suite on the PostgreSQL store, on a real server. */
// needs: postgres
import { storeConformance } from "../conformance.testing.ts";
import { testServer } from "./postgres-server.testing.ts";

const server = testServer();

storeConformance("PostgreSQL", () => server.emptyStore());
