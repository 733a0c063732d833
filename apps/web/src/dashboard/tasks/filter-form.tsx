/** Filter form: the filters of the list. Every change is a new address. */
import { Problem } from "../../components/problem.tsx";
import { Select } from "../../components/select.tsx";
import {
  ages,
  apiFilter,
  type FilterName,
  filterProblem,
  isFiltered,
  statuses,
  type TaskFilters,
} from "../filters/task-filters.ts";
import { ComboBox } from "../parts/combo-box.tsx";
import { statusLabel } from "../parts/status.tsx";
import { Link } from "../routing/link.tsx";
import { goTo } from "../routing/route.ts";
import { client, now, type SuggestedField } from "../service/client.ts";

interface SuggestedFilter {
  readonly name: FilterName;
  readonly field: SuggestedField;
  readonly label: string;
  readonly hint: string;
}

const FIELDS: readonly SuggestedFilter[] = [
  { name: "destination", field: "destination", label: "Destination", hint: "any" },
  { name: "label", field: "label", label: "Label", hint: "name=value" },
  { name: "reason", field: "reason", label: "Reason", hint: "any" },
  { name: "lastStatus", field: "lastStatus", label: "Last response", hint: "503" },
  { name: "policy", field: "policyId", label: "Policy", hint: "any" },
  { name: "key", field: "idempotencyKey", label: "Idempotency key", hint: "order-17" },
];

const AGES = [
  {
    label: "Created",
    options: Object.entries(ages).map(([value, { label }]) => ({ value, label })),
  },
];

const REDRIVEN = [
  {
    label: "Redriven",
    options: [
      { value: "false", label: "not redriven" },
      { value: "true", label: "redriven" },
    ],
  },
];

export function FilterForm({ filters }: { readonly filters: TaskFilters }) {
  const set = (name: FilterName, value: string) => goTo("tasks", { ...filters, [name]: value });
  const problem = filterProblem(filters);
  const count = FIELDS.filter(({ name }) => filters[name] !== "").length;
  return (
    <search class="task-filters">
      <StatusTabs filters={filters} />
      <details class="filter-fold" open={count > 0 || !isNarrow()}>
        <summary>Filters{count > 0 && ` (${count})`}</summary>
        <div class="filters">
          {FIELDS.map(({ name, field, label, hint }, index) => (
            <ComboBox
              key={name}
              label={label}
              value={filters[name]}
              placeholder={hint}
              focusKey={index === 0 ? "/" : undefined}
              suggest={async (text) => {
                const others = problem === "" ? apiFilter({ ...filters, [name]: "" }, now()) : {};
                return (await client.suggestValues({ ...others, field, text })).suggestions;
              }}
              onChange={(value) => set(name, value)}
            />
          ))}
          <Select
            label="Created"
            value={filters.age}
            groups={AGES}
            emptyLabel="any time"
            onChange={(value) => set("age", value)}
          />
          {filters.status === "EXHAUSTED" && (
            <Select
              label="Redriven"
              value={filters.redriven}
              groups={REDRIVEN}
              emptyLabel="either"
              onChange={(value) => set("redriven", value)}
            />
          )}
          {isFiltered(filters) && (
            <button type="button" class="button" onClick={() => goTo("tasks")}>
              Clear filters
            </button>
          )}
        </div>
      </details>
      <Problem message={problem} />
    </search>
  );
}

/** On a phone the filters are folded until somebody uses them. */
function isNarrow(): boolean {
  return matchMedia("(max-width: 45rem)").matches;
}

function StatusTabs({ filters }: { readonly filters: TaskFilters }) {
  return (
    <nav class="status-tabs" aria-label="Status">
      {["", ...statuses].map((status) => (
        <Link
          key={status}
          page="tasks"
          query={{ ...filters, status, ...(status !== "EXHAUSTED" && { redriven: "" }) }}
          isCurrent={filters.status === status}
        >
          {tabLabel(status)}
        </Link>
      ))}
    </nav>
  );
}

function tabLabel(status: string): string {
  if (status === "") return "All";
  const label = status === "EXHAUSTED" ? "dead letters" : statusLabel(status);
  return label.charAt(0).toUpperCase() + label.slice(1);
}
