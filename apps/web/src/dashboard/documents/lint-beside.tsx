/** Lint beside: the findings about a document that is being edited. It is loaded when it is shown. */
import { LazyPart } from "../../components/lazy-part.tsx";
import { LINT_PANEL_HEIGHT } from "../../panels/lint/lint-panel-height.ts";
import type { Document, DocumentKind } from "./document-kinds.ts";

interface LintBesideProps {
  readonly kind: DocumentKind;
  readonly document: Document;
  /** Absent: there are no buttons that apply a fix. */
  readonly onFix?: ((document: Document) => void) | undefined;
}

/** The service retries for jobs: no person waits for the response. */
const CONTEXT = { waits: "job" } as const;

export function LintBeside(props: LintBesideProps) {
  return <LazyPart height={LINT_PANEL_HEIGHT} load={loadPanel} props={props} />;
}

async function loadPanel() {
  const { LintPanel } = await import("../../panels/lint/lint-panel.tsx");
  return function Panel({ kind, document, onFix }: LintBesideProps) {
    const fix = onFix && {
      onFix: (fixed: object) => onFix(kind.withFix(document, fixed)),
    };
    return <LintPanel subject={kind.lintSubject(document) as object} context={CONTEXT} {...fix} />;
  };
}
