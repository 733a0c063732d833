/**
 * `redrive completion`: prints a shell script that completes commands, flags and their values. The
 * script calls `redrive` for the candidates, so it is always up to date with the commands.
 */

import { systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import { Argument, type Command } from "commander";
import { createServiceClient, DEFAULT_URL, serviceUrl } from "./service/service-client.ts";
import { STATUSES, shortIds } from "./service/task-selection.ts";
import { CODE_NAMES } from "./simulate/policies-convert.ts";
import { addExamples } from "./terminal/flags.ts";
import { policyNames } from "./terminal/policy-choice.ts";
import type { Terminal } from "./terminal/terminal.ts";

const BASH = `_redrive() {
  local line="\${COMP_WORDS[*]:1:COMP_CWORD-1}"
  COMPREPLY=($(compgen -W "$(redrive completion words $line 2>/dev/null)" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _redrive redrive
`;

const SCRIPTS: Readonly<Record<string, string>> = {
  bash: BASH,
  zsh: `autoload -U +X bashcompinit && bashcompinit\n${BASH}`,
  fish: "complete -c redrive -a '(redrive completion words (commandline -opc)[2..-1] 2>/dev/null)'\n",
};

/** Used by the scripts to get the candidates; not for people. */
const COMPLETE = "words";

export function addCompletion(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("completion")
    .description("Print a shell script that completes commands, flags and their values.")
    .addArgument(new Argument("<shell>", "your shell").choices([...Object.keys(SCRIPTS), COMPLETE]))
    .argument("[words...]", "the words typed so far; used only by the scripts")
    .allowUnknownOption()
    .action(async (shell: string, words: readonly string[]) => {
      terminal.print(SCRIPTS[shell] ?? `${(await candidates(parent, words)).join("\n")}\n`);
      terminal.setExitCode(0);
    });
  addExamples(
    command,
    "redrive completion bash >> ~/.bashrc",
    "redrive completion zsh >> ~/.zshrc",
    "redrive completion fish > ~/.config/fish/completions/redrive.fish",
  );
}

/** Returns what may follow these words: values of the last flag, or subcommands, names and flags. */
export async function candidates(
  program: Command,
  words: readonly string[],
): Promise<readonly string[]> {
  let command = program;
  for (const word of words) {
    command = command.commands.find((one) => one.name() === word) ?? command;
  }
  const last = command.options.find(({ long, short }) => [long, short].includes(words.at(-1)));
  if (last?.required) return completeValue(last.long ?? "", words);
  const flags = command.options.flatMap(({ long }) => long ?? []);
  const [argument] = command.registeredArguments;
  const isNext = argument !== undefined && words.at(-1) === command.name();
  const names = isNext
    ? await completeValue(`${command.parent?.name()} ${argument.name()}`, words)
    : [];
  return [...command.commands.map((one) => one.name()), ...names, ...flags, "--help"];
}

// Values of a flag or an argument. Names of policies, destinations and tasks come from the running
// service; without one there are none.

/** A shell waits for the answer. */
const MAX_WAIT_MS = 1000;

const FIXED: Readonly<Record<string, () => readonly string[]>> = {
  "--status": () => STATUSES,
  "--preset": policyNames,
  "--code": () => CODE_NAMES,
  "--backoff": () => ["exponential", "linear", "fixed"],
};

type Lookup = (client: Client) => Promise<readonly string[]>;

const destinations: Lookup = async (client) =>
  (await client.listDestinations({ limit: 250 })).destinations.map(({ name }) => name);

const policies: Lookup = async (client) =>
  (await client.listPolicies()).policies.map(({ policyId }) => policyId);

const tasks: Lookup = async (client) =>
  shortIds((await client.listTasks({ limit: 50 })).tasks.map(({ taskId }) => taskId));

const deadLetters: Lookup = async (client) => {
  const found = await client.listDeadLetters({ limit: 50, redriven: false });
  return shortIds(found.tasks.map(({ taskId }) => taskId));
};

/** By flag, or by group and argument. */
const LOOKUPS: Readonly<Record<string, Lookup>> = {
  "--destination": destinations,
  "--policy": policies,
  "destinations name": destinations,
  "policies policyId": policies,
  "tasks taskId": tasks,
  "redrive taskId": tasks,
  "dlq taskId": deadLetters,
};

/** `what`: a flag such as `--status`, or a group and an argument such as `tasks taskId`. */
async function completeValue(what: string, words: readonly string[]): Promise<readonly string[]> {
  const fixed = FIXED[what];
  if (fixed !== undefined) return fixed();
  const lookup = LOOKUPS[what];
  if (lookup === undefined) return [];
  const found = lookup(createServiceClient(connectionIn(words))).catch(() => []);
  return Promise.race([found, systemClock.sleep(MAX_WAIT_MS).then(() => [])]);
}

/** The words so far may contain --url and --api-key; the environment is the default. */
function connectionIn(words: readonly string[]) {
  const after = (flag: string) => {
    const index = words.indexOf(flag);
    return index === -1 ? undefined : words[index + 1];
  };
  const url = after("--url") ?? (process.env["REDRIVE_URL"] || DEFAULT_URL);
  const apiKey = after("--api-key") ?? process.env["REDRIVE_API_KEY"];
  return { url: serviceUrl(url), ...(apiKey && { apiKey }) };
}
