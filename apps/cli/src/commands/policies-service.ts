/** `redrive policies ls|get|apply`: the policies that a running service knows. */
import { isObject, type PolicyDocument, quote, RedriveError, resolvePolicy } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import { policySummary } from "@redrive/simulator/text";
import type { Command } from "commander";
import { naming, readJson } from "../documents.ts";
import { addExamples, wholeFlag } from "../flags.ts";
import type { Presentation } from "../presentation.ts";
import { addRemote, askService, type RemoteFlags } from "../remote.ts";
import type { Screen } from "../screen.ts";
import { jsonLines } from "../terminal/json-lines.ts";
import { table } from "../terminal/table.ts";
import { wrap } from "../terminal/wrap.ts";

type Policy = Awaited<ReturnType<Client["getPolicy"]>>;

export function addServicePolicies(parent: Command, screen: Screen): void {
  addList(parent, screen);
  addGet(parent, screen);
  addApply(parent, screen);
}

function addList(parent: Command, screen: Screen): void {
  const command = parent.command("ls").description("the policies that a running service knows");
  addRemote(command);
  addExamples(command, "redrive policies ls");
  command.action((flags: RemoteFlags) =>
    askService(screen, flags, async (client) => {
      const list = await client.listPolicies();
      return { json: list, text: (look) => table(COLUMNS, list.policies.map(rowOf), look) };
    }),
  );
}

const COLUMNS = [
  { head: "id" },
  { head: "version", align: "right" },
  { head: "source" },
  { head: "policy", gives: true },
] as const;

function rowOf({ policyId, version, source, document }: Policy): readonly string[] {
  return [policyId, String(version), source, policySummary(document as PolicyDocument)];
}

interface GetFlags extends RemoteFlags {
  readonly policyVersion?: number;
}

function addGet(parent: Command, screen: Screen): void {
  const command = parent
    .command("get <policyId>")
    .description("one policy of a running service; its document can be changed and applied")
    .option("--policy-version <number>", "default: the newest", wholeFlag(1, 1_000_000));
  addRemote(command);
  addExamples(command, "redrive policies get demo", "redrive policies get demo --json");
  command.action((policyId: string, { policyVersion, ...flags }: GetFlags) =>
    askService(screen, flags, async (client) =>
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

interface ApplyFlags extends RemoteFlags {
  readonly dryRun?: boolean;
}

function addApply(parent: Command, screen: Screen): void {
  const command = parent
    .command("apply <file>")
    .description("make a document the newest version of its policyId; tasks keep the one they have")
    .option("--dry-run", "only say what would change");
  addRemote(command);
  addExamples(
    command,
    "redrive policies apply orders.json",
    "redrive policies apply - < orders.json",
  );
  command.action((file: string, flags: ApplyFlags) =>
    askService(screen, flags, (client) => apply(client, file, flags.dryRun ?? false)),
  );
}

async function apply(client: Client, file: string, dryRun: boolean): Promise<Presentation> {
  const document = readPolicy(file);
  const { policyId } = document;
  const before = await newestOf(client, policyId);
  if (dryRun) return presentDryRun(before, document);
  const policy = await client.replacePolicy(policyId, document);
  const earlier = before === undefined ? "new" : `was ${before.version}`;
  const words = before?.version === policy.version ? "unchanged" : earlier;
  return { json: policy, text: () => [`${policyId} is at version ${policy.version} (${words}).`] };
}

function presentDryRun(before: Policy | undefined, document: PolicyDocument): Presentation {
  const isSame = JSON.stringify(before?.document) === JSON.stringify(document);
  const next = isSame ? "stay as it is" : `become version ${(before?.version ?? 0) + 1}`;
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
  return naming(file, () => {
    resolvePolicy(document as PolicyDocument);
    const policyId = isObject(document) ? document["policyId"] : undefined;
    if (typeof policyId === "string") return document as PolicyDocument & { policyId: string };
    const message = `a policy to apply must have a policyId, got ${quote(policyId)}`;
    throw new RedriveError("INVALID_POLICY", message);
  });
}
