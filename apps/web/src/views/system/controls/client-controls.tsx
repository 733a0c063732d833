/** Client controls: open traffic, or closed clients that wait for each call before the next. */
import type { CallsDocument, ClosedClients, OpenClients } from "@redrive/simulator";
import { Card } from "../../../components/card.tsx";
import { DurationField } from "../../../components/duration-field.tsx";
import { Field } from "../../../components/field.tsx";
import { Segmented } from "../../../components/segmented.tsx";
import { Toggle } from "../../../components/toggle.tsx";
import { merged, middleOf, withMiddle } from "../document/document.ts";
import { editCalls } from "../state/system-store.ts";

type Clients = OpenClients | ClosedClients;

/** The initial values of each kind. */
const OPEN: OpenClients = { kind: "OPEN", count: 20, ratePerSecond: 500 };
const CLOSED: ClosedClients = { kind: "CLOSED", count: 1000, think: 1000 };

/** The last values of each kind, restored when the reader switches back. */
const before: { OPEN: OpenClients; CLOSED: ClosedClients } = { OPEN, CLOSED };

export function ClientControls({ document }: { readonly document: CallsDocument }) {
  const { clients } = document;
  const set = (next: Clients) => editCalls((calls) => ({ ...calls, clients: next }));
  const choose = (kind: Clients["kind"]) => {
    if (clients.kind === "OPEN") before.OPEN = clients;
    else before.CLOSED = clients;
    set(before[kind]);
  };
  return (
    <Card title="Clients">
      <Segmented
        label="Traffic"
        isLabelHidden
        value={clients.kind}
        options={[
          { value: "OPEN", label: "Open (Poisson)" },
          { value: "CLOSED", label: "Closed" },
        ]}
        onChange={choose}
      />
      {clients.kind === "OPEN" ? (
        <Open clients={clients} set={set} />
      ) : (
        <Closed clients={clients} set={set} />
      )}
    </Card>
  );
}

interface OpenProps {
  readonly clients: OpenClients;
  set(clients: Clients): void;
}

function Open({ clients, set }: OpenProps) {
  return (
    <>
      <Field
        label="Offered load"
        unit="calls/s"
        value={clients.ratePerSecond}
        min={1}
        max={10_000}
        scale="log"
        onInput={(ratePerSecond) => set({ ...clients, ratePerSecond })}
      />
      <Field
        label="Clients"
        unit="clients"
        value={clients.count ?? 1}
        min={1}
        max={10_000}
        scale="log"
        hint="They share the load. Each can have its own guards."
        onInput={(count) => set({ ...clients, count: Math.round(count) })}
      />
    </>
  );
}

interface ClosedProps {
  readonly clients: ClosedClients;
  set(clients: Clients): void;
}

function Closed({ clients, set }: ClosedProps) {
  const change = (part: Parameters<typeof merged<ClosedClients>>[1]) => set(merged(clients, part));
  return (
    <>
      <Field
        label="Clients"
        unit="clients"
        value={clients.count}
        min={1}
        max={1_000_000}
        scale="log"
        onInput={(count) => change({ count: Math.round(count) })}
      />
      <Toggle
        checked={clients.jobs === 1}
        onChange={(isOn) => change({ jobs: isOn ? 1 : undefined })}
      >
        One call each
      </Toggle>
      {clients.jobs !== 1 && (
        <DurationField
          label="Pause between calls"
          value={middleOf(clients.think)}
          min={0}
          max={60_000}
          onInput={(ms) => change({ think: withMiddle(clients.think, ms) })}
        />
      )}
      <DurationField
        label="First calls spread over"
        value={clients.startSpreadMs ?? 0}
        min={0}
        max={60_000}
        onInput={(ms) => change({ startSpreadMs: ms === 0 ? undefined : Math.round(ms) })}
      />
    </>
  );
}
