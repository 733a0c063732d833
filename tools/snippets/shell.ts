/** Shell: checks that the npm scripts in a document exist. Does not run them. */
import { readFileSync } from "node:fs";
import { inRoot } from "../setup/root.mjs";

/** npm commands that run the script with the same name. */
const SCRIPT_COMMANDS = ["start", "test"];

/** Returns one message per problem in a block of shell commands. */
export function shellProblems(code: string): string[] {
  const scripts = Object.keys(JSON.parse(readFileSync(inRoot("package.json"), "utf8")).scripts);
  return code.split("\n").flatMap((line) => {
    const words = line.replace(/^\$ /u, "").trim().split(/\s+/u);
    const script = scriptOf(words);
    if (script === undefined || scripts.includes(script)) return [];
    return [`there is no npm script "${script}"`];
  });
}

function scriptOf(words: readonly string[]): string | undefined {
  if (words[0] !== "npm") return undefined;
  if (words[1] === "run") return words[2];
  return SCRIPT_COMMANDS.find((name) => name === words[1]);
}
