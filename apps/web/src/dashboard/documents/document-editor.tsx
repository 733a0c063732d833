/**
 * Document editor: edits a document as JSON, with the findings of the linter and the fields that change
 * beside it. Core checks the text while the user types; the service checks it again.
 */
import { formatCount } from "@redrive/core";
import { useId } from "preact/hooks";
import { Card } from "../../components/card.tsx";
import { Notice } from "../../components/notice.tsx";
import { ChangesTable } from "./changes-table.tsx";
import type { Document, DocumentKind } from "./document-kinds.ts";
import { LintBeside } from "./lint-beside.tsx";
import { type Edited, printed, useEdited } from "./use-edited.ts";
import "./documents.css";

interface DocumentEditorProps {
  readonly title: string;
  readonly hint: string;
  readonly kind: DocumentKind;
  readonly stored: Document;
  readonly isEditable: boolean;
  /** What the user wants to apply, for example from the simulator. Default: the stored document. */
  readonly draft?: Document | undefined;
  /** What saving means, as a sentence. */
  readonly effect: string;
  save(document: Document): Promise<unknown>;
  onSaved(): void;
}

export function DocumentEditor(props: DocumentEditorProps) {
  const { title, hint, kind, isEditable } = props;
  const edited = useEdited(props);
  const { changes, document } = edited;
  return (
    <div class="editor">
      <Card title={title} aside={hint}>
        <EditorForm {...props} edited={edited} />
      </Card>
      <div class="beside">
        {changes !== undefined && <ChangesTable changes={changes} />}
        {document !== undefined && (
          <LintBeside
            kind={kind}
            document={document}
            onFix={isEditable ? (fixed) => edited.change(printed(fixed)) : undefined}
          />
        )}
      </div>
    </div>
  );
}

const MIN_ROWS = 8;
const MAX_ROWS = 28;

function EditorForm(props: DocumentEditorProps & { readonly edited: Edited }) {
  const { title, isEditable, effect, edited } = props;
  const { text, problems, changes } = edited;
  const id = useId();
  const lines = text.split("\n").length + 1;
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        void edited.save();
      }}
    >
      <label class="visually-hidden" for={id}>
        {title}, as JSON
      </label>
      <textarea
        id={id}
        class="text-area code"
        rows={Math.min(MAX_ROWS, Math.max(MIN_ROWS, lines))}
        spellcheck={false}
        readOnly={!isEditable}
        value={text}
        aria-invalid={problems.length > 0}
        onInput={(event) => edited.change(event.currentTarget.value)}
      />
      <div aria-live="polite">
        {problems.map((problem) => (
          <p key={problem} class="problem">
            {problem}
          </p>
        ))}
      </div>
      {edited.isSaved && <Notice>Saved. {effect}</Notice>}
      {isEditable && edited.isEdited && (
        <div class="actions">
          <button
            type="submit"
            class="button accent"
            disabled={edited.isBusy || changes === undefined}
          >
            Save {changes === undefined ? "" : formatCount(changes.length, "change")}
          </button>
          <button type="button" class="button" onClick={edited.discard}>
            Discard
          </button>
          <span class="faint">{effect}</span>
        </div>
      )}
    </form>
  );
}
