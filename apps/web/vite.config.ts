/**
 * Vite configuration: builds one bundle with relative paths, so that the same files work under /ui/
 * and in any folder. Each page is a copy of `index.html`, so that static hosts need no rewrite rule.
 */
import { copyFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";
import { pageNames } from "./src/components/pages.ts";

const DIST = fileURLToPath(new URL("dist/", import.meta.url));
const LINT_DOCS = fileURLToPath(new URL("../../docs/lint.md", import.meta.url));

/** The same policy as the service's header. Static hosts do not send that header. */
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
      // As text, for the lint findings of the pages.
      copyFileSync(LINT_DOCS, `${DIST}lint.txt`);
    },
  };
}

export default defineConfig({
  base: "./",
  // Resolve to the sources of our packages first, so that only used code is bundled.
  resolve: { conditions: ["redrive-source", "module", "browser", "development|production"] },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    // Never inline small files: data: URLs would need an exception in the content policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        // The code that every view uses is one file: it compresses better and needs one request.
        codeSplitting: {
          groups: [
            {
              name: "parts",
              test: /src\/(?:app\/(?!apply-run)|components\/(?!catalog|code-|export-files|lint-panel)|views\/(?:curve\/waits-chart|view\.)|worker\/query|schedule\/schedule\.ts|decide\/(?:compiled-policy|backoff|jitter|policy|presets)\.ts|documents\/format|policy-summary)/u,
            },
          ],
        },
      },
    },
  },
  worker: { format: "es" },
  plugins: [pages()],
});
