/** Fleet mutants: nodes that do not share what they must share, or that trust a wrong clock. */
import type { DestinationRow } from "../../faces/service/src/model/destination-row.ts";
import type { NodeReport, Renewal } from "../../faces/service/src/model/node-report.ts";
import type { MemoryStore } from "../../faces/service/src/stores/memory/memory-store.ts";
import { isReadable } from "./documents.ts";
import type { Mutant } from "./mutant.ts";

const HOUR_MS = 3_600_000;

const FLEET_LIMITS = "limits of the fleet kept";

export const fleetMutants: readonly Mutant[] = [
  {
    name: "slots that every node takes in full",
    caughtBy: FLEET_LIMITS,
    foundBy: 18,
    wrapMemory: (memory) =>
      withRenewal(memory, (renewal, { destinations }) => ({
        ...renewal,
        destinations: renewal.destinations.map((share, index) => ({
          ...share,
          slots: destinations[index]?.slots?.limit ?? 0,
          retrySlots: destinations[index]?.retrySlots?.limit ?? 0,
        })),
      })),
  },
  {
    name: "tokens of a rate that every node takes in full",
    caughtBy: FLEET_LIMITS,
    foundBy: 76,
    wrapMemory: (memory) =>
      withRenewal(memory, (renewal, { destinations }) => ({
        ...renewal,
        destinations: renewal.destinations.map((share, index) => {
          const use = destinations[index]?.rate ?? null;
          const tokens = { startAt: renewal.now - 1000, count: 2 * (use?.perSecond ?? 0) };
          return { ...share, rate: use === null ? null : tokens };
        }),
      })),
  },
  {
    name: "nodes that each believe they are alone",
    caughtBy: FLEET_LIMITS,
    wrapMemory: (memory) =>
      withRenewal(memory, (renewal, { nodeId }) => ({
        ...renewal,
        nodes: [nodeId],
        takesAll: true,
      })),
  },
  {
    name: "due tasks that no other node finds",
    caughtBy: "prompt starts",
    foundBy: 3,
    wrapMemory: (memory) => ({
      ...memory,
      onWakeUp: () => ({ follow: () => {}, stop: () => {} }),
      dueLanes: async (query) => {
        const isEverything = query.from < 0;
        return isEverything ? memory.dueLanes(query) : { lanes: [], cursor: null };
      },
    }),
  },
  {
    name: "a store whose clock is read an hour ahead",
    caughtBy: "no early or late attempt",
    wrapMemory: (memory) => ({
      ...withRenewal(memory, (renewal) => ({ ...renewal, now: renewal.now + HOUR_MS })),
      clock: async () => (await memory.clock()) + HOUR_MS,
    }),
  },
  {
    name: "documents of a newer version that count as none",
    caughtBy: "breaker open means no traffic",
    orBy: "no old document returns",
    wrapStore: (observed) => ({
      ...withRenewal(observed, (renewal) => ({
        ...renewal,
        destinations: renewal.destinations.map((share) => ({ ...share, row: readable(share.row) })),
      })),
      getDestination: async (tenantId, name) =>
        readable(await observed.getDestination(tenantId, name)),
      commitNow(batch) {
        const result = observed.commitNow(batch);
        return {
          ...result,
          destinations: result.destinations.map(readable),
          claims: result.claims.map((claim) => ({ ...claim, row: readable(claim.row) })),
        };
      },
    }),
  },
];

/** The row without a document that this version cannot read. */
function readable(row: DestinationRow | null): DestinationRow | null {
  return row === null || isReadable(row.document) ? row : { ...row, document: null };
}

function withRenewal(
  memory: MemoryStore,
  change: (renewal: Renewal, report: NodeReport) => Renewal,
): MemoryStore {
  return { ...memory, renew: async (report) => change(await memory.renew(report), report) };
}
