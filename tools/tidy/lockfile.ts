/** Lockfile: names every package that its own packages ask for, or `npm ci` refuses it elsewhere. */
import { missingEntries } from "../lockfile.mjs";
import type { Finding, Source } from "./source.ts";

export function lockfile(sources: readonly Source[]): Finding[] {
  return sources
    .filter(({ path }) => path.endsWith("package-lock.json"))
    .flatMap(({ path, text }) =>
      missingEntries(JSON.parse(text)).map(({ name, by }) => ({
        path,
        line: 1,
        message: `has no ${name}, which ${by || "the root"} asks for: run npm run lockfile`,
      })),
    );
}
