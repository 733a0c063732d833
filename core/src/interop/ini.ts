/**
 * INI: parses the file format of `~/.aws/config`: sections, `name = value`, comments, and nested blocks,
 * which are indented and ignored.
 */
import { quote } from "../errors/assert.ts";
import { RedriveError } from "../errors/errors.ts";

/** Names are in lower case. If a value is given twice, the last one counts. */
export type IniSection = ReadonlyMap<string, string>;

/** A larger file is not a configuration. */
const MAX_CHARACTERS = 1_000_000;

/** Sections by their heading, as written between the brackets. */
export function parseIni(text: string): ReadonlyMap<string, IniSection> {
  if (text.length > MAX_CHARACTERS) {
    fail(`the file must have at most ${MAX_CHARACTERS} characters, got ${text.length}`);
  }
  const sections = new Map<string, Map<string, string>>();
  let current: Map<string, string> | undefined;
  text.split(/\r\n|[\r\n]/).forEach((line, index) => {
    const heading = /^\[([^\]]*)\]\s*([#;].*)?$/.exec(line)?.[1]?.trim();
    if (heading !== undefined) {
      current = sections.get(heading) ?? new Map();
      sections.set(heading, current);
    } else if (!isPassedOver(line)) {
      addValue(current, line, index + 1);
    }
  });
  return sections;
}

/** Blank lines, comments, and indented lines, which belong to the value above. */
function isPassedOver(line: string): boolean {
  return /^(\s|[#;]|$)/.test(line);
}

function addValue(section: Map<string, string> | undefined, line: string, number: number): void {
  const equals = line.indexOf("=");
  if (equals < 1) fail(`line ${number} must be a [section] or name = value, got ${quote(line)}`);
  if (section === undefined) fail(`line ${number} must come after a [section], got ${quote(line)}`);
  const name = line.slice(0, equals).trim().toLowerCase();
  // A comment after a value needs a blank before it; otherwise it is part of the value.
  const value = line.slice(equals + 1).replace(/\s[#;].*$/, "");
  section.set(name, value.trim());
}

function fail(message: string): never {
  throw new RedriveError("INVALID_IMPORT", message);
}
