/** `redrive policies catalog`: shows the presets and the policies of other libraries as documents. */
import { presets } from "@redrive/core";
import { type CatalogEntry, catalog, catalogEntry } from "@redrive/core/interop";
import { policySummary } from "@redrive/simulator/text";
import type { Command } from "commander";
import { addExamples } from "../input/flags.ts";
import { namedPolicy } from "../input/policy-choice.ts";
import { jsonLines } from "../print/json-lines.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
} from "../print/presentation.ts";
import { table } from "../print/table.ts";
import type { Terminal, TextStyle } from "../print/terminal.ts";
import { wrap, wrapWithPrefix } from "../print/wrap.ts";

export function addCatalog(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("catalog [id]")
    .description("List the presets and the policies of other libraries, or show one of them.");
  addOutputFlags(command, "json", "csv");
  addExamples(
    command,
    "redrive policies catalog",
    "redrive policies catalog aws-standard",
    "redrive policies catalog webhook --json > webhook.json",
  );
  command.action((id: string | undefined, flags: OutputOptions) =>
    presentResult(terminal, flags, () => (id === undefined ? presentAll() : presentOne(id))),
  );
}

export function presentAll(): Presentation {
  const own = Object.entries(presets).map(([name, document]) => [
    name,
    "preset",
    policySummary(document),
  ]);
  const others = catalog.map(({ id, title, policy }) => [id, title, policySummary(policy)]);
  const rows = [...own, ...others];
  const columns = [
    { head: "id" },
    { head: "origin", wraps: true },
    { head: "policy", wraps: true },
  ] as const;
  return {
    json: { presets, catalog },
    text: (style) => table(columns, rows, style),
    csv: () => [["id", "whose", "policy"], ...rows],
  };
}

export function presentOne(id: string): Presentation {
  const { document } = namedPolicy(id);
  if (Object.hasOwn(presets, id)) {
    const lines = [document.description ?? "", policySummary(document)];
    return {
      json: document,
      text: ({ width }) => [
        ...lines.flatMap((line) => wrap(line, width)),
        "",
        ...jsonLines(document),
      ],
    };
  }
  const entry = catalogEntry(id);
  return { json: entry, text: (style) => entryText(entry, style) };
}

function entryText(entry: CatalogEntry, { width, paint }: TextStyle): readonly string[] {
  const { title, version, date, source, policy, destination, differs } = entry;
  const head = (text: string) => ["", paint("strong", text)];
  return [
    paint("strong", title),
    ...wrapWithPrefix("version  ", `${version}, checked on ${date}`, width),
    ...wrapWithPrefix("source   ", source, width),
    ...wrapWithPrefix("policy   ", policySummary(policy), width),
    ...head("What a policy cannot express"),
    ...(differs.length === 0
      ? ["- nothing"]
      : differs.flatMap((one) => wrapWithPrefix("- ", one, width))),
    ...head("Destination document"),
    ...jsonLines({ policy, ...destination }),
  ];
}
