/**
 * Vite: one bundle with relative paths, so that the same files work under /ui/ and in any folder.
 * Each page is a copy of `index.html` under its own name, which static hosts serve without a rule.
 */
import { copyFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";
import { pageNames } from "./src/app/pages.ts";

const DIST = fileURLToPath(new URL("dist/", import.meta.url));

/** As the service sends it; here for static hosts, which send no header of ours. */
const CONTENT_POLICY =
  "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; form-action 'none'";

function pages(): Plugin {
  return {
    name: "redrive-pages",
    apply: "build",
    transformIndexHtml: () => [
      {
        tag: "meta",
        attrs: { "http-equiv": "Content-Security-Policy", content: CONTENT_POLICY },
        injectTo: "head-prepend",
      },
    ],
    closeBundle() {
      for (const name of pageNames) copyFileSync(`${DIST}index.html`, `${DIST}${name}.html`);
    },
  };
}

export default defineConfig({
  base: "./",
  // Ours first: the packages' sources, so that only what is used is bundled.
  resolve: { conditions: ["redrive-source", "module", "browser", "development|production"] },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    // Small files stay files: a data: URL would need a hole in the content policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        // What every view uses as one file: it compresses better, and is one request.
        codeSplitting: {
          groups: [
            {
              name: "parts",
              test: /src\/(?:app|chart|parts|panels\/(?:policy\/(?!catalog)|lint\/lint-panel-height)|views\/(?:seed|view)\.|worker\/(?:query|client))/u,
            },
          ],
        },
      },
    },
  },
  worker: { format: "es" },
  plugins: [pages()],
});
