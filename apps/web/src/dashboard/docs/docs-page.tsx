/** Docs page: the API of the service, from its own OpenAPI document. */
import { useEffect } from "preact/hooks";
import { CopyButton } from "../parts/copy-button.tsx";
import { EmptyState } from "../parts/empty-state.tsx";
import { PageFrame } from "../parts/page-frame.tsx";
import { TextInput } from "../parts/text-input.tsx";
import { goTo, route } from "../routing/route.ts";
import { serviceUrl } from "../service/client.ts";
import { usePolled } from "../service/use-polled.ts";
import {
  type ApiDocs,
  type ApiField,
  curlOf,
  type Operation,
  readDocs,
  searched,
} from "./openapi.ts";
import "./docs.css";

/** It changes only with the version of the service. */
const EVERY_MS = 3_600_000;

async function load(): Promise<ApiDocs> {
  const response = await fetch(new URL("openapi.json", serviceUrl));
  return readDocs(await response.json());
}

export function DocsPage() {
  const { data, problem } = usePolled("docs", load, { everyMs: EVERY_MS });
  return (
    <PageFrame
      title="API"
      problem={problem}
      isLoaded={data !== undefined}
      actions={
        <>
          <a class="button" href="../openapi.json">
            openapi.json
          </a>
          <a class="button" href="../docs">
            Plain page
          </a>
        </>
      }
    >
      {data !== undefined && <Content docs={data} />}
    </PageFrame>
  );
}

function Content({ docs }: { readonly docs: ApiDocs }) {
  const text = route.value.query["q"] ?? "";
  const groups = searched(docs, text);
  // The target of a link to an operation exists only now.
  useEffect(() => {
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }, []);
  return (
    <>
      <p class="prose">{docs.description}</p>
      <search class="filters one-line">
        <TextInput
          label="Search"
          value={text}
          placeholder="redrives"
          focusKey="/"
          onChange={(q) => goTo("docs", { q })}
        />
      </search>
      {groups.length === 0 && <EmptyState title="No operation matches" />}
      {groups.map(({ tag, operations }) => (
        <section key={tag} class="api-group" aria-labelledby={`tag-${tag}`}>
          <h2 id={`tag-${tag}`}>{tag}</h2>
          {operations.map((operation) => (
            <OperationPart key={operation.id} operation={operation} />
          ))}
        </section>
      ))}
      {text === "" && <Problems docs={docs} />}
    </>
  );
}

function OperationPart({ operation }: { readonly operation: Operation }) {
  const { id, method, path, summary, description, parameters, body, response, statuses } =
    operation;
  const command = curlOf(operation, serviceUrl);
  return (
    <details class="operation" id={id}>
      <summary>
        <span class={`method ${method.toLowerCase()}`}>{method}</span>
        <code class="path">{path}</code>
        <span class="operation-summary">{summary}</span>
      </summary>
      <div class="operation-body">
        {description !== "" && <p class="prose">{description}</p>}
        <Fields title="Parameters" fields={parameters} />
        <Fields title="Body" fields={body} />
        <Fields title="Response" fields={response} />
        <p class="faint">Statuses: {statuses.join(", ") || "204"}, and the problems below.</p>
        <div class="command">
          <pre>{command}</pre>
          <CopyButton text={command} label="Copy" />
        </div>
      </div>
    </details>
  );
}

interface FieldsProps {
  readonly title: string;
  readonly fields: readonly ApiField[];
}

function Fields({ title, fields }: FieldsProps) {
  if (fields.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <dl class="api-fields">
        {fields.map(({ name, type, isRequired, description }) => (
          <div key={name}>
            <dt>
              <code>{name}</code>
              {isRequired && <span class="faint"> required</span>}
            </dt>
            <dd>
              <span class="faint">{type}</span> {description}
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}

function Problems({ docs: { problems } }: { readonly docs: ApiDocs }) {
  return (
    <section class="api-group" aria-labelledby="problems">
      <h2 id="problems">Problems</h2>
      <p class="prose">
        An error is an <code>application/problem+json</code> document with a stable code.
      </p>
      <dl class="api-fields">
        {problems.map(({ code, status, title }) => (
          <div key={code} id={code}>
            <dt>
              <code>{code}</code>
            </dt>
            <dd>
              <span class="faint">{status}</span> {title}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
