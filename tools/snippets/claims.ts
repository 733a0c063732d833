/**
 * Claims: a comment `// => value` after a statement states its value. Claims become comparisons on
 * the same line, so that a compiler error still points at the right line.
 */
import { inspect, isDeepStrictEqual } from "node:util";

const CLAIM = /^(?<indent>\s*)(?<statement>.*?);?\s*\/\/ => (?<value>.*)$/u;
const DECLARATION = /^(?:export )?(?:const|let) (?<name>\w+)/u;
const LOGGED = /^console\.\w+\((?<logged>.*)\)$/u;

/** The function that a claim calls. The snippet's last line imports it. */
const CHECK = "claimed";

/** Returns the code with its claims as comparisons. `module` exports `claimed`. */
export function withClaims(code: string, module: string): string {
  const lines = code.trimEnd().split("\n").map(claimOn);
  const isClaiming = lines.some((line) => line.includes(`${CHECK}(`));
  return [...lines, isClaiming ? `import { ${CHECK} } from "${module}";` : "export {};", ""].join(
    "\n",
  );
}

function claimOn(line: string): string {
  const { indent = "", statement = "", value = "" } = CLAIM.exec(line)?.groups ?? {};
  if (statement === "" && value === "") return line;
  if (statement === "") throw new Error(`a claim must be after its statement: ${line.trim()}`);
  const name = DECLARATION.exec(statement)?.groups?.["name"];
  if (name !== undefined) return `${indent}${statement}; ${CHECK}(${name}, (${value}));`;
  const logged = LOGGED.exec(statement)?.groups?.["logged"] ?? statement;
  return `${indent}${CHECK}(${logged}, (${value}));`;
}

/** Throws unless both values are deeply equal. */
export function claimed(actual: unknown, expected: unknown): void {
  if (isDeepStrictEqual(actual, expected)) return;
  throw new Error(`the snippet claims ${inspect(expected)}, but it is ${inspect(actual)}`);
}
