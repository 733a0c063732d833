/**
 * Fleet: mutants of what several nodes on one store need: the exchange, the assignment of partitions,
 * leases, the store's clock, and the shares in core.
 */
import { inService } from "../mutant.mjs";

/**
 * The mutants of one file of `core/src/guards`, which the tests of core must find.
 * @param {string} path
 * @param {readonly string[]} tests
 * @param {readonly Omit<import("../mutant.mjs").Mutant, "file">[]} mutants
 */
function inGuards(path, tests, mutants) {
  return mutants.map((mutant) => ({ file: `core/src/guards/${path}`, tests, ...mutant }));
}

const engine = [
  inService("engine/exchange.ts", [
    {
      name: "a share of limits from another version of the document is used",
      search: "const isCurrent = destination.row.document === documents[index];",
      replace: "const isCurrent = documents.length > index;",
    },
    {
      name: "a node whose lease had ended keeps its shares",
      search: "    if (renewal.wasLapsed) fleet.dropShares(destinations);\n",
      replace: "",
    },
    {
      name: "the tasks of a gained partition wait for the next read of everything",
      search: "if (gained.length > 0) dueScan.readGained(gained);",
      replace: "",
    },
    {
      name: "a node follows the wake-ups of partitions that it has lost, and not those that it has gained",
      search: "if (gained.length > 0 || hasLost) this.#wakeUps?.follow(partitions.list);",
      replace: "",
    },
    {
      name: "destinations of a failed exchange are not reported again",
      search: "      fleet.restoreReports(reported.map(([destination]) => destination));\n",
      replace: "",
    },
    {
      name: "the other nodes wait a second until this node shares its limits",
      search: "if (isChanged && renewal.takesAll !== fleet.isAlone) this.request();",
      replace: "",
    },
  ]),
  inService("engine/fleet.ts", [
    {
      name: "a node that is not alone takes whole limits",
      search: "const takesAll = renewal.takesAll && nodes.length === 1;",
      replace: "const takesAll = renewal.takesAll;",
    },
    {
      name: "a node uses more than it has just asked for",
      search: "      destination.limitShare(report);\n",
      replace: "",
    },
    {
      name: "every node removes unused rows",
      search: "return partitions.has(partitions.all[0] as number);",
      replace: "return partitions.list.length >= 0;",
    },
  ]),
  inService("engine/maintenance.ts", [
    {
      name: "a node sweeps the partitions of others",
      search: "const range = { partitions: partitions.list,",
      replace: "const range = { partitions: partitions.all,",
    },
    {
      name: "a full batch of removals is not repeated at once",
      search: "return removed >= BATCH;",
      replace: "return removed > BATCH;",
    },
    {
      name: "what a sweep has passed over is never looked for",
      search: "if (!isContinued) this.#restartMs = nowMs + RESTART_MS;",
      replace: "this.#restartMs = nowMs + RESTART_MS;",
    },
  ]),
  inService("engine/fleet-state.ts", [
    {
      name: "a node that joins uses retries that the others may have used",
      search: "isNew: this.#isNew(windowMs, now),",
      replace: "isNew: false,",
    },
    {
      name: "a node that joins does not wait for nodes that cannot reach the store",
      search: "now - this.#joinedAt < this.#leaseMs + windowMs",
      replace: "now - this.#joinedAt < windowMs",
    },
    {
      name: "the nodes that stay use the retries of one that left at once",
      search: "maxNodes: Math.max(...recent.map(({ nodes }) => nodes)),",
      replace: "maxNodes: latest.nodes,",
    },
  ]),
  inService("engine/fleet.ts", [
    {
      name: "a node has more than its part of the partitions",
      search: "(room.get(node) ?? 0) > 0 && hash > highest",
      replace: "hash > highest",
    },
    {
      name: "nodes that list each other in another order assign other partitions",
      search: "const sorted = [...nodes].sort();",
      replace: "const sorted = [...nodes];",
      equivalent: "the order counts only for two nodes whose hashes of a partition are equal",
    },
  ]),
  inService("engine/node.ts", [
    {
      name: "a lease counts from the response",
      search: "this.#usableUntilMs = requested.monotonicMs + ",
      replace: "this.#usableUntilMs = clock.monotonicMs() + ",
    },
    {
      name: "a lease that had ended counts as held without a gap",
      search: "const hadGap = wasLapsed || !this.isHeld();",
      replace: "const hadGap = !this.isHeld();",
    },
    {
      name: "a node that slept sends before it has renewed its lease",
      search: "<= MAX_GAP_MS;",
      replace: "<= Number.POSITIVE_INFINITY;",
    },
  ]),
  inService("engine/node.ts", [
    {
      name: "nodes look for an idempotency key in different partitions",
      search: "if (idempotencyKey !== null) return partitionByteOfKey(tenantId, idempotencyKey);",
      replace: "",
    },
    {
      name: "a backlog is stored in one partition",
      search: "|| this.#turnTasks >= TURN_TASKS;",
      replace: ";",
    },
  ]),
  inService("engine/due-scan.ts", [
    {
      name: "what other nodes have stored is read once a minute only",
      search: "soonMs: 1000,",
      replace: "soonMs: 60_000,",
    },
    {
      name: "a page of a slow read delays the reads that a start waits for",
      search: "Math.max(pauseOf(URGENT_PAUSE), waitMs)",
      replace: "Math.max(pauseOf(QUIET_PAUSE), waitMs)",
    },
    {
      name: "a read begins where the last one has not ended",
      search: "const from = Math.min(now - this.#pace.lookBackMs, this.#coveredUntil);",
      replace: "const from = now;",
    },
  ]),
  inService("engine/fleet.ts", [
    {
      name: "a pause that another node ends holds for ever",
      search:
        "if (destination.isShared || destination.awaitsOthers) this.#active.add(destination);",
      replace: "if (destination.isShared) this.#active.add(destination);",
    },
  ]),
  inService("time/engine-time.ts", [
    {
      name: "a reading counts from the request",
      search: "    const reading = { offsetMs: now - atMs, atMs };\n    // At the request",
      replace: "    const reading = { offsetMs: now - requestMs, atMs };\n    // At the request",
    },
    {
      name: "a clock that runs too fast is ahead of the store",
      search: "offsetMs - (nowMs - atMs) * MAX_DRIFT",
      replace: "offsetMs",
    },
    {
      name: "a store whose clock is set back is not followed",
      search: "isSetBack ? [reading] :",
      replace: "isSetBack && this.#readings.length === 0 ? [reading] :",
    },
    {
      name: "a reading is used forever",
      search: "atMs - one.atMs < KEPT_MS && boundOf",
      replace: "boundOf",
    },
    {
      name: "a reading replaces one with a better bound",
      search: "boundOf(one, atMs) > reading.offsetMs - ROUNDING_MS",
      replace: "boundOf(one, atMs) < reading.offsetMs - ROUNDING_MS",
    },
  ]),
  inService("model/store-wrappers.ts", [
    {
      name: "a call that does not end blocks its caller",
      search: "const cancel = clock.alarm(ms, fail, true);",
      replace: "const cancel = clock.alarm(1000 * ms, fail, true);",
      tests: ["faces/service/src/engine/engine-store-failure.test"],
    },
  ]),
];

const core = [
  inGuards(
    "fleet-admission.ts",
    ["core/src/guards/fleet-admission.test"],
    [
      {
        name: "a failure does not open the breaker together with those of other nodes",
        search: 'if (breaker !== undefined && verdict !== "success") this.trip(breaker, now);',
        replace: "",
      },
      {
        name: "a node alone counts the calls of others",
        search: "    if (this.share === undefined) return;\n",
        replace: "",
      },
      {
        name: "retries use the whole share",
        search: "if (hasSlot && (!isRetry || this.retriesInFlight < share.retrySlots)) return;",
        replace: "if (hasSlot) return;",
      },
      {
        name: "reserved tokens never expire",
        search: "  tokens.used = Math.max(tokens.used, Math.min(count, expired));\n",
        replace: "",
      },
      {
        name: "old reports of other nodes open a breaker again",
        search: "if (now - this.closedAt >= FORGET_MS) tripTogether",
        replace: "tripTogether",
      },
      {
        name: "an attempt that was never sent uses a token",
        search: "    if (tokens !== undefined) tokens.used--;\n",
        replace: "",
      },
    ],
  ),
  inGuards(
    "fleet-admission.ts",
    ["core/src/guards/fleet-admission.test"],
    [
      {
        name: "a node keeps the only slot for itself",
        search: "return heldMs >= MAX_HELD_MS ? 0 : Math.min(1, demand);",
        replace: "return Math.min(1, demand);",
      },
      {
        name: "nodes ask for what the others need",
        search: "limit - spare - othersDemand",
        replace: "limit - spare",
      },
      {
        name: "the next task of an idle node finds no slot",
        search: "Math.min(demand, limit - spare);",
        replace: "Math.min(demand, limit);",
      },
    ],
  ),
  inGuards(
    "shared-budget.ts",
    ["core/src/guards/shared-budget.test"],
    [
      {
        name: "a node that has just joined uses its part of the minimum",
        search: "  if (isNew) return 0;\n",
        replace: "",
      },
      {
        name: "every node uses the whole minimum",
        search: "Math.floor(floorOf(options) / maxNodes)",
        replace: "floorOf(options)",
      },
    ],
  ),
];

/** @type {readonly import("../mutant.mjs").Mutant[]} */
export const fleets = [...engine, ...core].flat();
