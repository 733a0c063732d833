/**
 * Bundle: a few lines of code and what they import from our packages, as one minified file, the way
 * a reader's own bundler would make it. Sources are bundled, so that no build is needed.
 */
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { type Plugin, rolldown } from "rolldown";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const ENTRY = "virtual:entry";

export interface Bundle {
  readonly code: string;
  readonly gzipBytes: number;
  /** What each module adds, minified, in bytes; the heaviest first. */
  readonly modules: readonly { readonly path: string; readonly bytes: number }[];
  /** Imports that were left in, because no file of ours answers to them. */
  readonly imports: readonly string[];
}

/** Bundles `entry`, which is read as a module at the root of the repository; `external` stays out. */
export async function bundle(entry: string, external: readonly string[] = []): Promise<Bundle> {
  const build = await rolldown({
    cwd: ROOT,
    external: [...external],
    input: ENTRY,
    platform: "browser",
    plugins: [entryPlugin(entry)],
    resolve: { conditionNames: ["redrive-source", "import", "default"] },
    treeshake: true,
  });
  try {
    const { output } = await build.generate({ format: "esm", minify: true, comments: false });
    const [chunk] = output;
    const { code, imports } = chunk;
    return {
      code,
      gzipBytes: gzipSync(code, { level: 9 }).length,
      modules: modulesOf(chunk),
      imports,
    };
  } finally {
    await build.close();
  }
}

function entryPlugin(code: string): Plugin {
  return {
    name: "entry",
    resolveId: (id) => (id === ENTRY ? `${ROOT}entry.ts` : undefined),
    load: (id) => (id === `${ROOT}entry.ts` ? code : undefined),
  };
}

function modulesOf({ modules }: { modules: Record<string, { renderedLength: number }> }) {
  return Object.entries(modules)
    .map(([path, { renderedLength }]) => ({
      path: path.replace(ROOT, ""),
      bytes: renderedLength,
    }))
    .toSorted((a, b) => b.bytes - a.bytes);
}
