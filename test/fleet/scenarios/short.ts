/**
 * Short: the cheapest form of each fault of a fleet, for `npm test`. All of them share two nodes with a
 * short lease, because a start takes seconds. Each runs on both stores at the same time, because most of
 * it is waiting for leases and timeouts. `npm run test:faults` has the long forms.
 */
import { describe, expect, it } from "vitest";
import type { RestartableServer } from "../../servers/restartable.ts";
import { type Fleet, sharedFleet } from "../fleet.ts";
import type { Responder } from "../wire-log.ts";
import { joinAndStop } from "./membership.ts";
import { cutOff, cutResponses } from "./network.ts";
import { crashStore, hangStore } from "./outage.ts";
import { killAndTakeOver, unreliably } from "./takeover.ts";
import { slowly, suspendPastLease } from "./zombie.ts";

const KINDS: readonly RestartableServer["kind"][] = ["postgres", "redis"];
const LEASE_MS = 2500;
/** As long as nodes need to notice that the store hangs. */
const HANG_MS = 4000;
const CUT_MS = 1000;
/** The lease, a round of the rescuers, and the waits of retries. */
const TAKEOVER_MS = 10_000;

export function describeShortFaults(): void {
  describe(`a fleet on ${KINDS.join(" and one on ")}`, () => {
    const fleets = KINDS.map((kind) => sharedFleet(kind, { nodes: 2, leaseMs: LEASE_MS }));
    const quickly = () => ({ status: 200, afterMs: 20 });
    const onEach = (name: string, respond: Responder, run: (fleet: Fleet) => Promise<void>) =>
      it(name, async () => {
        const ends = await Promise.allSettled(fleets.map(async (open) => run(await open(respond))));
        for (const [at, end] of ends.entries()) {
          if (end.status === "rejected") throw new Error(`on ${KINDS[at]}`, { cause: end.reason });
        }
      });

    onEach("shows dead rows and the oldest transaction", quickly, async ({ nodes, server }) => {
      if (server.kind !== "postgres") return;
      const text = await nodes[0]?.client.text("/metrics");
      expect(text).toMatch(/^retry_store_rows\{state="dead"\} \d+$/mu);
      expect(text).toMatch(/^retry_store_oldest_transaction_seconds [\d.]+$/mu);
    });

    onEach("loses nothing in a crash of the store", quickly, (fleet) => crashStore(fleet, 1));

    onEach("loses nothing while the store hangs", quickly, (fleet) => hangStore(fleet, HANG_MS));

    onEach("loses and repeats no task when responses of the store are lost", quickly, (fleet) =>
      cutResponses(fleet, 20),
    );

    onEach("takes over from a node whose connections to the store carry nothing", slowly, (fleet) =>
      cutOff(fleet, "silent", CUT_MS),
    );

    onEach(
      "refuses the results of a node that was stopped for longer than its lease",
      slowly,
      suspendPastLease,
    );

    onEach("repeats nothing when a node joins and is stopped", quickly, (fleet) =>
      joinAndStop(fleet, 1),
    );

    onEach("takes over from a node that was killed", unreliably, (fleet) =>
      killAndTakeOver(fleet, TAKEOVER_MS),
    );
  });
}
