/** New key: a form that creates an API key and shows it once. */
import { useSignal } from "@preact/signals";
import { Notice } from "../../components/notice.tsx";
import { Problem } from "../../components/problem.tsx";
import { CopyButton } from "../parts/copy-button.tsx";
import { client, now, problemOf } from "../service/client.ts";
import { session } from "../service/session.ts";
import { KeyFields, type KeyForm } from "./key-fields.tsx";

const DAY_MS = 86_400_000;

function emptyForm(): KeyForm {
  const tenantId = session.value?.tenantId ?? "default";
  return { name: "", tenantId, days: "", scopes: ["tasks:create", "tasks:read"] };
}

/** Returns the key itself. */
async function createKey({ name, tenantId, days, scopes }: KeyForm): Promise<string> {
  const expiresAt = now() + Number(days) * DAY_MS;
  const { key } = await client.createKey({
    ...{ name, tenantId, scopes: [...scopes] },
    ...(days !== "" && { expiresAt }),
  });
  return key;
}

export function NewKey({ onCreated }: { onCreated(): void }) {
  const form = useSignal<KeyForm | undefined>(undefined);
  const created = useSignal("");
  const problem = useSignal("");
  const show = (next: KeyForm | undefined) => {
    form.value = next;
    problem.value = "";
  };
  if (created.value !== "") {
    const close = () => {
      created.value = "";
    };
    return <CreatedKey apiKey={created.value} onDone={close} />;
  }
  const shown = form.value;
  if (shown === undefined) {
    return (
      <button type="button" class="button" onClick={() => show(emptyForm())}>
        New key
      </button>
    );
  }
  const create = async () => {
    try {
      created.value = await createKey(shown);
      show(undefined);
      onCreated();
    } catch (error) {
      problem.value = problemOf(error);
    }
  };
  return (
    <form
      class="form boxed"
      onSubmit={(event) => {
        event.preventDefault();
        void create();
      }}
    >
      <h3>New key</h3>
      <KeyFields form={shown} onChange={show} />
      <Problem message={problem.value} />
      <div class="actions">
        <button type="submit" class="button accent" disabled={shown.scopes.length === 0}>
          Create the key
        </button>
        <button type="button" class="button" onClick={() => show(undefined)}>
          Cancel
        </button>
      </div>
    </form>
  );
}

interface CreatedKeyProps {
  readonly apiKey: string;
  onDone(): void;
}

function CreatedKey({ apiKey, onDone }: CreatedKeyProps) {
  return (
    <div class="form boxed">
      <Notice tone="warn">Copy the key now. The service stores only its hash.</Notice>
      <div class="command">
        <pre class="raw new-key">{apiKey}</pre>
        <CopyButton text={apiKey} label="Copy" />
      </div>
      <button type="button" class="button" onClick={onDone}>
        Done
      </button>
    </div>
  );
}
