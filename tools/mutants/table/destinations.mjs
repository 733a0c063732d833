/** Destinations: mutants of the destinations of the engine, and of their guards. */
import { inService } from "../mutant.mjs";

export const destinations = [
  inService("engine/fleet.ts", [
    {
      name: "a share that is in use until the response is not counted",
      search: "used: Math.max(running, Math.min(held ?? 0, wanted))",
      replace: "used: running",
    },
  ]),
  inService("engine/destination-runtime.ts", [
    {
      name: "a cut after a call that succeeded does not name the refusal before it",
      search: "this.#overload = overload ?? this.#overload;",
      replace: "this.#overload = overload;",
    },
  ]),
  inService("engine/destination-runtime.ts", [
    {
      name: "a circuit that another node closed has no slow start",
      search: "if (isResumed || isClosed) rampUp(admission, now);",
      replace: "if (isResumed) rampUp(admission, now);",
    },
    {
      name: "a resumed destination has no slow start",
      search: "if (isResumed || isClosed) rampUp(admission, now);",
      replace: "if (isClosed) rampUp(admission, now);",
    },
    {
      name: "a pause by another node is ignored",
      search: 'row.pausedAt !== null || this.reading.kind === "unreadable"',
      replace: 'this.reading.kind === "unreadable"',
    },
    {
      name: "a gate of another node is ignored",
      search: "Math.max(admission.gateUntil, gateUntil)",
      replace: "admission.gateUntil",
    },
    {
      name: "an adopted row shortens a gate",
      search: "Math.max(admission.gateUntil, gateUntil)",
      replace: "gateUntil",
    },
    {
      name: "a document without gates keeps a gate",
      search: "isOff ? 0 : Math.max",
      replace: "Math.max",
    },
    {
      name: "a gate that has ended causes a slow start",
      search: "if (gateUntil <= now) skipGateRamp(admission, gateUntil);",
      replace: "",
    },
    {
      name: "the probe of a circuit does not keep other nodes out",
      search: 'if (breaker?.state === "HALF_OPEN") this.#announceProbe(breaker, now);',
      replace: "",
    },
    {
      name: "a changed document forgets an open circuit",
      search: "    keepOpen(current.guards, guards, now);\n",
      replace: "",
    },
    {
      name: "a changed document forgets the state of unchanged guards",
      search: "this.#savedText === undefined ? keepUnchanged(current, next) : next.guards",
      replace: "next.guards",
    },
    {
      name: "a destination in use is dropped",
      search: "this.users > 0 || this.usedAt > at",
      replace: "this.usedAt > at",
    },
    {
      name: "a destination whose guard state is not saved is dropped",
      search: "|| this.usedAt > at || this.isSavePending",
      replace: "|| this.usedAt > at",
    },
    {
      name: "a paused destination is dropped",
      search: "row.document !== null || row.pausedAt !== null",
      replace: "row.document !== null",
    },
    {
      name: "a destination with waiting tasks is dropped",
      search: "if (earliestDueAt(this.lanes) < Number.POSITIVE_INFINITY) return false;",
      replace: "",
    },
    {
      name: "a destination with a gate is dropped",
      search: 'row.breakerState !== "CLOSED" || gateUntil > at',
      replace: 'row.breakerState !== "CLOSED"',
    },
    {
      name: "a changed gate is not written to the row",
      search: "columns === null && gateUntil === row.gateUntil",
      replace: "columns === null",
    },
    {
      name: "saved guard state of another document is used",
      search: "if (previous.version > 0) this.#savedText = undefined;",
      replace: "",
    },
  ]),
  inService("engine/destination-runtime.ts", [
    {
      name: "a closed circuit is not written to the row",
      search: 'row.breakerState === "CLOSED"\n      ? null\n      : {',
      replace: "true\n      ? null\n      : {",
    },
    {
      name: "a probe whose permit was returned blocks other nodes",
      search: 'state === "HALF_OPEN" && breaker.probes > 0',
      replace: 'state === "HALF_OPEN"',
    },
    {
      name: "a circuit that another node opened stays closed here",
      search: "if (isChanged) adoptBreaker",
      replace: "if (false) adoptBreaker",
    },
    {
      name: "an unchanged row resets the breaker",
      search: "if (isChanged) adoptBreaker",
      replace: "if (true) adoptBreaker",
    },
  ]),
  inService("engine/destination-runtime.ts", [
    {
      name: "the order of fields in a document resets a guard",
      search: "entries.sort().join()",
      replace: "entries.join()",
    },
  ]),
  inService("engine/destination-runtime.ts", [
    {
      name: "tenants share a destination",
      search: "return `${tenantId}\\n${name}`;",
      replace: "return `${name}`;",
    },
    {
      name: "a check for idle destinations examines all of them",
      search: "checked < MAX_CHECKED",
      replace: "checked < 1000 * MAX_CHECKED",
    },
  ]),
].flat();
