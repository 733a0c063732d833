/** Server controls: capacity, queue and latency of the innermost server. */

import { formatInteger } from "@redrive/core";
import type { CallsDocument } from "@redrive/simulator";
import { Card } from "../../../components/card.tsx";
import { DurationField } from "../../../components/duration-field.tsx";
import { Field } from "../../../components/field.tsx";
import { Toggle } from "../../../components/toggle.tsx";
import { middleOf, serverOf, withMiddle, withServer } from "../document/document.ts";
import { editCalls } from "../state/system-store.ts";

const CAPACITY_PER_SECOND = 1000;
const QUEUE_MS = 500;

export function ServerControls({ document }: { readonly document: CallsDocument }) {
  const server = serverOf(document);
  const { capacityPerSecond, queueMs } = server;
  const set = (change: Parameters<typeof withServer>[1]) =>
    editCalls((one) => withServer(one, change));
  return (
    <Card title="Server">
      <Toggle
        checked={capacityPerSecond !== undefined}
        onChange={(isOn) => set({ capacityPerSecond: isOn ? CAPACITY_PER_SECOND : undefined })}
      >
        Limited capacity
      </Toggle>
      {capacityPerSecond !== undefined && (
        <Field
          label="Capacity"
          unit="calls/s"
          value={capacityPerSecond}
          min={1}
          max={100_000}
          scale="log"
          onInput={(value) => set({ capacityPerSecond: value })}
        />
      )}
      {capacityPerSecond !== undefined && (
        <Toggle
          checked={queueMs !== undefined}
          onChange={(isOn) => set({ queueMs: isOn ? QUEUE_MS : undefined })}
        >
          Bounded queue
        </Toggle>
      )}
      {capacityPerSecond !== undefined && queueMs !== undefined && (
        <DurationField
          label="Queue length"
          value={queueMs}
          min={0}
          max={60_000}
          hint={`${formatInteger((queueMs / 1000) * capacityPerSecond)} calls; more are rejected immediately`}
          onInput={(value) => set({ queueMs: Math.round(value) })}
        />
      )}
      <DurationField
        label="Latency"
        value={middleOf(server.latency)}
        min={0}
        max={60_000}
        hint={latencyHint(server.latency)}
        onInput={(value) => set({ latency: withMiddle(server.latency, value) })}
      />
      {capacityPerSecond !== undefined && (
        <Toggle
          checked={server.dropsExpired ?? false}
          onChange={(isOn) => set({ dropsExpired: isOn ? true : undefined })}
        >
          Drops calls whose client has given up
        </Toggle>
      )}
    </Card>
  );
}

function latencyHint(latency: ReturnType<typeof serverOf>["latency"]): string {
  if (latency === undefined || typeof latency === "number" || latency.kind === "FIXED") {
    return "In addition to queueing and service time.";
  }
  const word = latency.kind === "LOGNORMAL" ? "median" : "mean";
  return `The ${word} of a ${latency.kind.toLowerCase()} distribution.`;
}
