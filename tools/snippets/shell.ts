/** Shell: the commands of a document exist. They are read, not run. */
import { readFileSync } from "node:fs";
import { inRoot } from "../setup/root.mjs";

/** npm's own commands that run a script of the same name. */
const SHORT = ["start", "test"];

/** What is wrong with a block of shell commands, one message a problem. */
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
  return SHORT.find((name) => name === words[1]);
}
