/** `redrive policies`: lints and converts policy documents, and manages those of a running service. */

import {
  isObject,
  type PolicyDocument,
  presets,
  quote,
  RedriveError,
  resolvePolicy,
} from "@redrive/core";
import { type CatalogEntry, catalog, catalogEntry } from "@redrive/core/interop";
import type { Client } from "@redrive/service/client";
import { policySummary } from "@redrive/simulator/text";
import type { Command } from "commander";
import { addServiceFlags, type ClientFlags, callService } from "../service/service-client.ts";
import { readJson, withFileName } from "../terminal/documents.ts";
import { addExamples, integerFlag } from "../terminal/flags.ts";
import { namedPolicy } from "../terminal/policy-choice.ts";
import {
  addOutputFlags,
  jsonLines,
  type OutputOptions,
  type Presentation,
  presentResult,
} from "../terminal/presentation.ts";
import { table } from "../terminal/table.ts";
import { type Terminal, type TextStyle, wrap, wrapWithPrefix } from "../terminal/terminal.ts";
import { addExport, addImport } from "./policies-convert.ts";
import { addLint } from "./policies-lint.ts";

export function addPolicies(parent: Command, terminal: Terminal): void {
  const policies = parent
    .command("policies")
    .description("Lint, convert, list and apply policies.");
  addLint(policies, terminal);
  addCatalog(policies, terminal);
  addImport(policies, terminal);
  addExport(policies, terminal);
  addServicePolicies(policies, terminal);
}

// `ls`, `get` and `apply`: the policies of a running service.

type Policy = Awaited<ReturnType<Client["getPolicy"]>>;

function addServicePolicies(parent: Command, terminal: Terminal): void {
  addList(parent, terminal);
  addGet(parent, terminal);
  addApply(parent, terminal);
}

function addList(parent: Command, terminal: Terminal): void {
  const command = parent.command("ls").description("List the policies of a running service.");
  addServiceFlags(command);
  addExamples(command, "redrive policies ls");
  command.action((flags: ClientFlags) =>
    callService(terminal, flags, async (client) => {
      const list = await client.listPolicies();
      const note =
        "a task keeps the version that it started with; presets have version 0 until a task uses them";
      const text = (style: TextStyle) => table(COLUMNS, list.policies.map(rowOf), style);
      return { json: list, text, notes: [note] };
    }),
  );
}

const COLUMNS = [
  { head: "id" },
  { head: "version", align: "right" },
  { head: "source" },
  { head: "policy", wraps: true },
] as const;

function rowOf({ policyId, version, source, document }: Policy): readonly string[] {
  return [policyId, String(version), source, policySummary(document as PolicyDocument)];
}

interface GetFlags extends ClientFlags {
  readonly policyVersion?: number;
}

function addGet(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("get <policyId>")
    .description("Show a policy of a running service.")
    .option(
      "--policy-version <number>",
      "version to show (default: the newest)",
      integerFlag(1, 1_000_000),
    );
  addServiceFlags(command);
  addExamples(command, "redrive policies get demo", "redrive policies get demo --json");
  command.action((policyId: string, { policyVersion, ...flags }: GetFlags) =>
    callService(terminal, flags, async (client) =>
      presentPolicy(
        await client.getPolicy(policyId, {
          ...(policyVersion !== undefined && { version: policyVersion }),
        }),
      ),
    ),
  );
}

function presentPolicy(policy: Policy): Presentation {
  const { policyId, version, source, document } = policy;
  return {
    json: policy,
    text: ({ width, paint }) => [
      paint("strong", `${policyId}, version ${version} (${source})`),
      ...wrap(policySummary(document as PolicyDocument), width),
      "",
      ...jsonLines(document),
    ],
  };
}

interface ApplyFlags extends ClientFlags {
  readonly dryRun?: boolean;
}

function addApply(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("apply <file>")
    .description(
      "Register a document as the newest version of its policyId. Existing tasks keep their version.",
    )
    .option("--dry-run", "only show what would change");
  addServiceFlags(command);
  addExamples(
    command,
    "redrive policies apply orders.json",
    "redrive policies apply - < orders.json",
  );
  command.action((file: string, flags: ApplyFlags) =>
    callService(terminal, flags, (client) => apply(client, file, flags.dryRun ?? false)),
  );
}

async function apply(client: Client, file: string, dryRun: boolean): Promise<Presentation> {
  const document = readPolicy(file);
  const { policyId } = document;
  const before = await newestOf(client, policyId);
  if (dryRun) return presentDryRun(before, document);
  const policy = await client.replacePolicy(policyId, document);
  const earlier = before === undefined ? "new" : `was ${before.version}`;
  const change = before?.version === policy.version ? "unchanged" : earlier;
  return { json: policy, text: () => [`${policyId} is at version ${policy.version} (${change}).`] };
}

function presentDryRun(before: Policy | undefined, document: PolicyDocument): Presentation {
  const isSame = JSON.stringify(before?.document) === JSON.stringify(document);
  const next = isSame ? "stay unchanged" : `become version ${(before?.version ?? 0) + 1}`;
  return {
    json: { before: before ?? null, document, changes: !isSame },
    text: () => [`${document.policyId} would ${next}.`],
  };
}

async function newestOf(client: Client, policyId: string): Promise<Policy | undefined> {
  const { policies } = await client.listPolicies();
  return policies.find((policy) => policy.policyId === policyId && policy.version > 0);
}

function readPolicy(file: string): PolicyDocument & { readonly policyId: string } {
  const document = readJson(file);
  return withFileName(file, () => {
    resolvePolicy(document as PolicyDocument);
    const policyId = isObject(document) ? document["policyId"] : undefined;
    if (typeof policyId === "string") return document as PolicyDocument & { policyId: string };
    const message = `the policy must have a policyId, got ${quote(policyId)}`;
    throw new RedriveError("INVALID_POLICY", message);
  });
}

// `catalog`: the presets and the policies of other libraries as documents.

function addCatalog(parent: Command, terminal: Terminal): void {
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

function presentAll(): Presentation {
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

function presentOne(id: string): Presentation {
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
