/** Document form: edits the document of a destination as JSON. The service checks it. */
import { useSignal } from "@preact/signals";
import { DocumentError } from "@redrive/core";
import { Card } from "../../components/card.tsx";
import { Notice } from "../../components/notice.tsx";
import { client, type DestinationView, problemOf } from "../service/client.ts";
import { may } from "../service/session.ts";

interface DocumentFormProps {
  readonly destination: DestinationView;
  onSaved(): void;
}

type Document = Parameters<typeof client.configureDestination>[1];

export function DocumentForm({ destination, onSaved }: DocumentFormProps) {
  const { name, document } = destination;
  const stored = JSON.stringify(document ?? {}, null, 2);
  /** Undefined: not edited, so that the form follows the service. */
  const edited = useSignal<string | undefined>(undefined);
  const problems = useSignal<readonly string[]>([]);
  const isSaved = useSignal(false);
  const isBusy = useSignal(false);
  const save = async () => {
    isBusy.value = true;
    problems.value = await store(name, edited.value ?? stored);
    isSaved.value = problems.value.length === 0;
    if (isSaved.value) {
      edited.value = undefined;
      onSaved();
    }
    isBusy.value = false;
  };
  const isEditable = may("admin");
  return (
    <Card title="Document" aside="policy and guards; {} means all defaults">
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <label class="visually-hidden" for="destination-document">
          Document of the destination, as JSON
        </label>
        <textarea
          id="destination-document"
          class="text-area code"
          rows={10}
          spellcheck={false}
          readOnly={!isEditable}
          value={edited.value ?? stored}
          onInput={(event) => {
            edited.value = event.currentTarget.value;
            isSaved.value = false;
          }}
        />
        {problems.value.map((problem) => (
          <p key={problem} class="problem" role="alert">
            {problem}
          </p>
        ))}
        {isSaved.value && <Notice>Saved. New attempts use it.</Notice>}
        {isEditable && (
          <div class="actions">
            <button
              type="submit"
              class="button accent"
              disabled={isBusy.value || edited.value === undefined}
            >
              Save
            </button>
            {edited.value !== undefined && (
              <button
                type="button"
                class="button"
                onClick={() => {
                  edited.value = undefined;
                  problems.value = [];
                }}
              >
                Discard the changes
              </button>
            )}
          </div>
        )}
      </form>
    </Card>
  );
}

/** Stores the document. Returns one line per problem. */
async function store(name: string, text: string): Promise<readonly string[]> {
  let document: Document;
  try {
    document = JSON.parse(text) as Document;
  } catch (error) {
    return [`This is not JSON: ${(error as Error).message}`];
  }
  try {
    await client.configureDestination(name, document);
    return [];
  } catch (error) {
    if (!(error instanceof DocumentError)) return [problemOf(error)];
    return error.problems.map(({ message }) => message);
  }
}
