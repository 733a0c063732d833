/** Use edited: the text of a document that is being edited, what it changes, and saving it. */
import { useSignal } from "@preact/signals";
import { DocumentError } from "@redrive/core";
import { problemOf } from "../service/client.ts";
import { type Change, changesOf } from "./changes.ts";
import { type Document, type DocumentKind, readDraft } from "./document-kinds.ts";

interface EditedOptions {
  readonly kind: DocumentKind;
  readonly stored: Document;
  /** What the user wants to apply. Default: the stored document. */
  readonly draft?: Document | undefined;
  save(document: Document): Promise<unknown>;
  onSaved(): void;
}

export interface Edited {
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

export function printed(document: Document): string {
  return JSON.stringify(document, null, 2);
}

export function useEdited(options: EditedOptions): Edited {
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
