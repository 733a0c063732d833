/** Lockfile: checks that package-lock.json has all dependencies; otherwise `npm ci` rejects it elsewhere. */
import { missingEntries } from "../lockfile.mjs";
import type { Finding, Source } from "./source.ts";

export function lockfile(sources: readonly Source[]): Finding[] {
  return sources
    .filter(({ path }) => path.endsWith("package-lock.json"))
    .flatMap(({ path, text }) =>
      missingEntries(JSON.parse(text)).map(({ name, by }) => ({
        path,
        line: 1,
        message: `has no ${name}, which ${by || "the root"} needs: run npm run lockfile`,
      })),
    );
}
