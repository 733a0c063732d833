/**
 * Document editor: edits a document as JSON, with the findings of the linter and the fields that change
 * beside it. Core checks the text while the user types; the service checks it again.
 */
import { useSignal } from "@preact/signals";
import { DocumentError, formatCount, formatDuration, isObject } from "@redrive/core";
import { useId } from "preact/hooks";
import { Card, Notice } from "../../components/frames.tsx";
import { LazyPart, LINT_PANEL_HEIGHT } from "../../components/lazy-part.tsx";
import { problemOf } from "./client.ts";
import { type Document, type DocumentKind, readDraft } from "./document-kinds.ts";
import { visibleText } from "./visible-text.ts";

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

// Edited: the text of a document that is being edited, what it changes, and saving it.

interface EditedOptions {
  readonly kind: DocumentKind;
  readonly stored: Document;
  /** What the user wants to apply. Default: the stored document. */
  readonly draft?: Document | undefined;
  save(document: Document): Promise<unknown>;
  onSaved(): void;
}

interface Edited {
  readonly text: string;
  readonly isEdited: boolean;
  readonly isBusy: boolean;
  readonly isSaved: boolean;
  /** Of core while the user types, or of the service. */
  readonly problems: readonly string[];
  /** Undefined while the text is no valid document. */
  readonly document: Document | undefined;
  /** Undefined: not edited, or not valid. */
  readonly changes: readonly Change[] | undefined;
  change(text: string): void;
  discard(): void;
  save(): Promise<void>;
}

function printed(document: Document): string {
  return JSON.stringify(document, null, 2);
}

function useEdited(options: EditedOptions): Edited {
  const { kind, stored, draft: given } = options;
  const storedText = printed(stored);
  /** Undefined: not edited, so that the form follows the service. */
  const edited = useSignal(given === undefined ? undefined : printed(given));
  const refused = useSignal<readonly string[]>([]);
  const isSaved = useSignal(false);
  const isBusy = useSignal(false);
  const text = edited.value ?? storedText;
  const draft = readDraft(kind, text);
  const before = readDraft(kind, storedText);
  const isEdited = edited.value !== undefined;
  const change = (next: string | undefined) => {
    edited.value = next;
    refused.value = [];
    isSaved.value = false;
  };
  const isValid = "document" in draft;
  return {
    text,
    isEdited,
    isBusy: isBusy.value,
    isSaved: isSaved.value,
    problems: isValid ? refused.value : draft.problems,
    document: isValid ? draft.document : undefined,
    changes:
      isEdited && isValid
        ? changesOf("document" in before ? before.resolved : {}, draft.resolved)
        : undefined,
    change,
    discard: () => change(undefined),
    async save() {
      if (!isValid) return;
      isBusy.value = true;
      refused.value = await problemsOf(() => options.save(draft.document));
      isBusy.value = false;
      if (refused.value.length > 0) return;
      change(undefined);
      isSaved.value = true;
      options.onSaved();
    },
  };
}

/** One line per problem; none if it was saved. */
async function problemsOf(save: () => Promise<unknown>): Promise<readonly string[]> {
  try {
    await save();
    return [];
  } catch (error) {
    if (error instanceof DocumentError) return error.problems.map(({ message }) => message);
    return [problemOf(error)];
  }
}

/** What saving a document changes. */
function ChangesTable({ changes }: { readonly changes: readonly Change[] }) {
  return (
    <Card title="What changes" aside={formatCount(changes.length, "field")} class="changes">
      {changes.length === 0 ? (
        <p class="faint">Nothing: the document has the same meaning.</p>
      ) : (
        <div class="table-wrap">
          <table class="table">
            <caption class="visually-hidden">Fields that change, before and after</caption>
            <thead>
              <tr>
                <th scope="col">Field</th>
                <th scope="col">Now</th>
                <th scope="col">After</th>
              </tr>
            </thead>
            <tbody>
              {changes.map(({ field, before, after }) => (
                <tr key={field}>
                  <th scope="row">
                    <code>{visibleText(field)}</code>
                  </th>
                  <td class="before">{visibleText(before)}</td>
                  <td class="after">{visibleText(after)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

// Changes: the difference between two documents, field by field. Both are compared with their
// defaults filled in, so that a removed field shows the default that applies instead.

interface Change {
  /** The path of the field, such as `breaker.failureRate`. */
  readonly field: string;
  readonly before: string;
  readonly after: string;
}

type Fields = Readonly<Record<string, unknown>>;

/** `before` and `after` have their defaults filled in. */
export function changesOf(before: Fields, after: Fields): readonly Change[] {
  const [old, next] = [flattened(before), flattened(after)];
  const fields = new Set([...old.keys(), ...next.keys()]);
  return [...fields].flatMap((field) => {
    const [one, other] = [old.get(field), next.get(field)];
    if (JSON.stringify(one) === JSON.stringify(other)) return [];
    return [{ field, before: textOf(field, one), after: textOf(field, other) }];
  });
}

/** Leaves by path. A list is a leaf. */
function flattened(fields: Fields, prefix = ""): ReadonlyMap<string, unknown> {
  const leaves = new Map<string, unknown>();
  for (const [name, value] of Object.entries(fields)) {
    const path = `${prefix}${name}`;
    if (isObject(value) && !Array.isArray(value)) {
      for (const [field, leaf] of flattened(value, `${path}.`)) leaves.set(field, leaf);
    } else if (value !== undefined) {
      leaves.set(path, value);
    }
  }
  return leaves;
}

function textOf(field: string, value: unknown): string {
  if (value === undefined || value === false) return "off";
  if (value === null) return "none";
  if (typeof value === "number" && field.endsWith("Ms")) return formatDuration(value);
  if (Array.isArray(value)) {
    if (value.length === 0) return "none";
    return value.map((one) => textOf(field, one)).join(", ");
  }
  return value === true ? "on" : String(value);
}

interface LintBesideProps {
  readonly kind: DocumentKind;
  readonly document: Document;
  /** Absent: there are no buttons that apply a fix. */
  readonly onFix?: ((document: Document) => void) | undefined;
}

/** The service retries for jobs: no person waits for the response. */
const CONTEXT = { waits: "job" } as const;

/** The findings about a document that is being edited. It is loaded when it is shown. */
function LintBeside(props: LintBesideProps) {
  return <LazyPart height={LINT_PANEL_HEIGHT} load={loadPanel} props={props} />;
}

async function loadPanel() {
  const { LintPanel } = await import("../../components/lint-panel.tsx");
  return function Panel({ kind, document, onFix }: LintBesideProps) {
    const fix = onFix && {
      onFix: (fixed: object) => onFix(kind.withFix(document, fixed)),
    };
    return <LintPanel subject={kind.lintSubject(document) as object} context={CONTEXT} {...fix} />;
  };
}
