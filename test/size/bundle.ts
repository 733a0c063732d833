/**
 * Bundle: bundles a few lines of code, and what they import from our packages, into one minified
 * file, like a user's bundler. It bundles sources, so no build is needed.
 */
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { type Plugin, rolldown } from "rolldown";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const ENTRY = "virtual:entry";

export interface Bundle {
  readonly code: string;
  readonly gzipBytes: number;
  /** Rendered bytes of each module, largest first. */
  readonly modules: readonly { readonly path: string; readonly bytes: number }[];
  /** Imports that remain in the bundle, because none of our files provides them. */
  readonly imports: readonly string[];
}

/** Bundles `entry` as a module at the repository's root, without the modules in `external`. */
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
