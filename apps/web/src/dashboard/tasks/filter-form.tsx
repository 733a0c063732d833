/** Filter form: the filters of the list. Every change is a new address. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Problem } from "../../components/problem.tsx";
import { Select } from "../../components/select.tsx";
import { statusLabel } from "../parts/status.tsx";
import { TextInput } from "../parts/text-input.tsx";
import { goTo } from "../routing/route.ts";
import { client } from "../service/client.ts";
import {
  type FilterName,
  filterNames,
  filterProblem,
  statuses,
  type TaskFilters,
} from "./filters.ts";

const STATUS_GROUPS = [
  {
    label: "Status",
    options: statuses.map((value) => ({ value, label: statusLabel(value) })),
  },
];

const FIELDS: readonly {
  readonly name: FilterName;
  readonly label: string;
  readonly hint: string;
}[] = [
  { name: "label", label: "Label", hint: "name=value" },
  { name: "key", label: "Idempotency key", hint: "order-17" },
  { name: "reason", label: "Reason", hint: "attempts" },
  { name: "lastStatus", label: "Last response", hint: "503" },
];

export function FilterForm({ filters }: { readonly filters: TaskFilters }) {
  const set = (name: FilterName, value: string) => goTo("tasks", { ...filters, [name]: value });
  const isFiltered = filterNames.some((name) => filters[name] !== "");
  return (
    <search class="filters">
      <Select
        label="Status"
        value={filters.status}
        groups={STATUS_GROUPS}
        emptyLabel="any"
        onChange={(value) => set("status", value)}
      />
      <DestinationField
        value={filters.destination}
        onChange={(value) => set("destination", value)}
      />
      {FIELDS.map(({ name, label, hint }) => (
        <TextInput
          key={name}
          label={label}
          value={filters[name]}
          placeholder={hint}
          onChange={(value) => set(name, value)}
        />
      ))}
      {isFiltered && (
        <button type="button" class="button" onClick={() => goTo("tasks")}>
          Clear filters
        </button>
      )}
      <Problem message={filterProblem(filters)} />
    </search>
  );
}

interface DestinationFieldProps {
  readonly value: string;
  onChange(value: string): void;
}

/** Suggests the first destinations by name. */
function DestinationField({ value, onChange }: DestinationFieldProps) {
  const names = useSignal<readonly string[]>([]);
  useEffect(() => {
    const load = async () => {
      const { destinations } = await client.listDestinations({ limit: 250 });
      names.value = destinations.map(({ name }) => name);
    };
    // Without suggestions the field still works.
    load().catch(() => {});
  }, []);
  return (
    <div class="select">
      <label for="destination-filter">Destination</label>
      <input
        id="destination-filter"
        class="text-area"
        list="destination-names"
        value={value}
        placeholder="any"
        autocomplete="off"
        spellcheck={false}
        onChange={(event) => onChange(event.currentTarget.value.trim())}
      />
      <datalist id="destination-names">
        {names.value.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </div>
  );
}
