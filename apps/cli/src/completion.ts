/**
 * `redrive completion`: prints a shell script that completes commands, flags and their values. The
 * script calls `redrive` for the candidates, so it is always up to date with the commands.
 */
import { Argument, type Command } from "commander";
import { completeValue } from "./complete-value.ts";
import { addExamples } from "./input/flags.ts";
import type { Terminal } from "./print/terminal.ts";

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
