/** Key fields: the name, the tenant, the lifetime and the scopes of a new key. */
import { Select } from "../../components/select.tsx";
import { Toggle } from "../../components/toggle.tsx";
import { TextInput } from "../parts/text-input.tsx";
import { session } from "../service/session.ts";

export interface KeyForm {
  readonly name: string;
  readonly tenantId: string;
  /** Until it expires; empty: never. */
  readonly days: string;
  readonly scopes: readonly string[];
}

const SCOPES = [
  ["tasks:create", "create tasks"],
  ["tasks:read", "read tasks and destinations"],
  ["tasks:cancel", "cancel tasks and retry them now"],
  ["dlq:redrive", "redrive and discard dead letters"],
  ["payload:read", "read bodies"],
  ["metrics:read", "read the metrics"],
  ["admin", "everything, also policies, destinations and keys"],
] as const;

const LIFETIMES = [
  {
    label: "Lifetime",
    options: [
      { value: "30", label: "30 days" },
      { value: "90", label: "90 days" },
      { value: "365", label: "1 year" },
    ],
  },
];

interface KeyFieldsProps {
  readonly form: KeyForm;
  onChange(form: KeyForm): void;
}

export function KeyFields({ form, onChange }: KeyFieldsProps) {
  const { name, tenantId, days, scopes } = form;
  return (
    <>
      <div class="filters">
        <TextInput
          label="Name"
          value={name}
          placeholder="shop"
          onChange={(text) => onChange({ ...form, name: text })}
        />
        {session.value?.tenantId === "default" && (
          <TextInput
            label="Tenant"
            value={tenantId}
            onChange={(text) => onChange({ ...form, tenantId: text })}
          />
        )}
        <Select
          label="Expires after"
          value={days}
          groups={LIFETIMES}
          emptyLabel="never"
          onChange={(value) => onChange({ ...form, days: value })}
        />
      </div>
      <fieldset class="scopes">
        <legend>Scopes</legend>
        {SCOPES.map(([scope, text]) => (
          <Toggle
            key={scope}
            checked={scopes.includes(scope)}
            onChange={(checked) => {
              const others = scopes.filter((one) => one !== scope);
              onChange({ ...form, scopes: checked ? [...others, scope] : others });
            }}
          >
            <code>{scope}</code> <span class="faint">{text}</span>
          </Toggle>
        ))}
      </fieldset>
    </>
  );
}
