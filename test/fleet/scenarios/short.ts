/**
 * Short: the cheapest form of each fault of a fleet, for `npm test`. All of them share two nodes with a
 * short lease, because a start takes seconds. `npm run test:faults` has the long forms.
 */
import { expect, it } from "vitest";
import type { RestartableServer } from "../../servers/restartable.ts";
import { describeSharedFleet } from "../fleet.ts";
import { joinAndStop } from "./membership.ts";
import { cutOff, cutResponses } from "./network.ts";
import { crashStore, hangStore } from "./outage.ts";
import { killAndTakeOver, unreliably } from "./takeover.ts";
import { slowly, suspendPastLease } from "./zombie.ts";

const LEASE_MS = 2500;
/** As long as nodes need to notice that the store hangs. */
const HANG_MS = 4000;
const CUT_MS = 1000;
/** The lease, a round of the rescuers, and the waits of retries. */
const TAKEOVER_MS = 10_000;

/** Defines the tests of one store. */
export function describeShortFaults(kind: RestartableServer["kind"]): void {
  const quickly = () => ({ status: 200, afterMs: 20 });
  describeSharedFleet(
    "a fleet",
    (open) => {
      it.runIf(kind === "postgres")("shows dead rows and the oldest transaction", async () => {
        const [node] = (await open()).nodes;
        const text = await node?.client.text("/metrics");
        expect(text).toMatch(/^retry_store_rows\{state="dead"\} \d+$/mu);
        expect(text).toMatch(/^retry_store_oldest_transaction_seconds [\d.]+$/mu);
      });

      it("loses nothing in a crash of the store", async () => {
        await crashStore(await open(quickly), 1);
      });

      it("loses nothing while the store hangs", async () => {
        await hangStore(await open(quickly), HANG_MS);
      });

      it("loses and repeats no task when responses of the store are lost", async () => {
        await cutResponses(await open(quickly), 20);
      });

      it("takes over from a node whose connections to the store carry nothing", async () => {
        await cutOff(await open(slowly), "silent", CUT_MS);
      });

      it("refuses the results of a node that was stopped for longer than its lease", async () => {
        await suspendPastLease(await open(slowly));
      });

      it("repeats nothing when a node joins and is stopped", async () => {
        await joinAndStop(await open(quickly), 1);
      });

      it("takes over from a node that was killed", async () => {
        await killAndTakeOver(await open(unreliably), TAKEOVER_MS);
      });
    },
    { nodes: 2, leaseMs: LEASE_MS },
    [kind],
  );
}
