/** Outage card: the service simulates an outage of the destination, as it has measured it. */
import { useSignal } from "@preact/signals";
import { formatDuration } from "@redrive/core";
import { Card } from "../../components/card.tsx";
import { Select } from "../../components/select.tsx";
import { ActionButton } from "../parts/action-button.tsx";
import { client, type SimulationView } from "../service/client.ts";
import { inputsText, runAddress } from "./outage-text.ts";

const OUTAGES_MS = [30_000, 60_000, 600_000, 3_600_000];
const FIRST_OUTAGE_MS = 60_000;

export function OutageCard({ name }: { readonly name: string }) {
  const outageMs = useSignal(FIRST_OUTAGE_MS);
  const result = useSignal<SimulationView | undefined>(undefined);
  const simulate = async () => {
    result.value = undefined;
    result.value = await simulateOutage(name, outageMs.value);
  };
  const options = OUTAGES_MS.map((ms) => ({ value: String(ms), label: formatDuration(ms) }));
  return (
    <Card title="What would an outage do?" aside="simulated with what was measured here">
      <div class="filters">
        <Select
          label="Outage"
          value={String(outageMs.value)}
          groups={[{ label: "Length", options }]}
          onChange={(value) => {
            outageMs.value = Number(value);
          }}
        />
        <ActionButton label="Simulate" act={simulate} />
      </div>
      {result.value !== undefined && <Result view={result.value} />}
    </Card>
  );
}

function Result({ view }: { readonly view: SimulationView }) {
  const { report, inputs } = view;
  return (
    <div aria-live="polite">
      <p class="sentence">{String(report["verdict"])}</p>
      {inputs !== null && (
        <>
          <p>Measured: {inputsText(inputs)}</p>
          <ul class="plain-list faint">
            {inputs.notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </>
      )}
      <p>
        <a class="button" href={runAddress(view)}>
          Open this run in the simulator
        </a>
      </p>
    </div>
  );
}

async function simulateOutage(destination: string, outageMs: number): Promise<SimulationView> {
  try {
    return await client.simulate({ destination, outageMs });
  } catch (error) {
    if ((error as { readonly code?: string }).code !== "NOT_MEASURED") throw error;
    const text =
      "The service has measured no calls here in the last minutes. Open in the simulator, above, starts with assumed figures.";
    throw new Error(text, { cause: error });
  }
}
