/** `redrive policies catalogue`: the presets and what others really do, as documents to start from. */
import { presets } from "@redrive/core";
import { type CatalogEntry, catalog, catalogEntry } from "@redrive/core/interop";
import { policySummary } from "@redrive/simulator/text";
import type { Command } from "commander";
import { addExamples } from "../flags.ts";
import { namedPolicy } from "../policy-choice.ts";
import { addOutput, finish, type OutputOptions, type Presentation } from "../presentation.ts";
import type { Look, Screen } from "../screen.ts";
import { jsonLines } from "../terminal/json-lines.ts";
import { table } from "../terminal/table.ts";
import { wrap, wrapAfter } from "../terminal/wrap.ts";

export function addCatalogue(parent: Command, screen: Screen): void {
  const command = parent
    .command("catalogue [id]")
    .description("the presets, and what other libraries really do; with an id, all about one");
  addOutput(command, "json", "csv");
  addExamples(
    command,
    "redrive policies catalogue",
    "redrive policies catalogue aws-standard",
    "redrive policies catalogue webhook --json > webhook.json",
  );
  command.action((id: string | undefined, flags: OutputOptions) =>
    finish(screen, flags, () => (id === undefined ? presentAll() : presentOne(id))),
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
    { head: "whose", gives: true },
    { head: "policy", gives: true },
  ] as const;
  return {
    json: { presets, catalogue: catalog },
    text: (look) => table(columns, rows, look),
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
  return { json: entry, text: (look) => entryText(entry, look) };
}

function entryText(entry: CatalogEntry, { width, paint }: Look): readonly string[] {
  const { title, version, date, source, policy, destination, differs } = entry;
  const head = (text: string) => ["", paint("strong", text)];
  return [
    paint("strong", title),
    ...wrapAfter("version  ", `${version}, as seen on ${date}`, width),
    ...wrapAfter("source   ", source, width),
    ...wrapAfter("policy   ", policySummary(policy), width),
    ...head("What a policy cannot say of it"),
    ...(differs.length === 0
      ? ["- nothing"]
      : differs.flatMap((one) => wrapAfter("- ", one, width))),
    ...head("As a destination"),
    ...jsonLines({ policy, ...destination }),
  ];
}
