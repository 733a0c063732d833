/** Docs page: the API of the service, from its own OpenAPI document. */
import { isObject } from "@redrive/core";
import { useEffect } from "preact/hooks";
import { serviceUrl } from "./parts/client.ts";
import { CopyButton, TextInput } from "./parts/form.tsx";
import { goTo, route } from "./parts/link.tsx";
import { usePolled } from "./parts/live.ts";
import { EmptyState, PageFrame } from "./parts/page-frame.tsx";

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

// OpenAPI: reads the document of the service into what the page of the API shows.

type Part = Readonly<Record<string, unknown>>;

interface ApiField {
  readonly name: string;
  readonly type: string;
  readonly isRequired: boolean;
  readonly description: string;
}

interface Operation {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly summary: string;
  readonly description: string;
  readonly parameters: readonly ApiField[];
  readonly body: readonly ApiField[];
  /** The fields of the successful response. */
  readonly response: readonly ApiField[];
  readonly statuses: readonly string[];
}

interface Problem {
  readonly code: string;
  readonly status: number;
  readonly title: string;
}

interface ApiDocs {
  readonly description: string;
  readonly groups: readonly { readonly tag: string; readonly operations: readonly Operation[] }[];
  readonly problems: readonly Problem[];
}

/** Operations keep the order of the document: the service puts them into reading order. */
export function readDocs(openapi: unknown): ApiDocs {
  const document = partOf(openapi);
  const info = partOf(document["info"]);
  const groups = new Map<string, Operation[]>();
  for (const [path, item] of Object.entries(partOf(document["paths"]))) {
    for (const [method, operation] of Object.entries(partOf(item))) {
      // A path may also have a summary, or a list of parameters.
      if (!isObject(operation) || Array.isArray(operation)) continue;
      const tag = textOf(listOf(operation["tags"])[0]) || "other";
      groups.set(tag, [...(groups.get(tag) ?? []), readOperation(method, path, operation)]);
    }
  }
  return {
    description: textOf(info["description"]),
    groups: [...groups].map(([tag, operations]) => ({ tag, operations })),
    problems: listOf(info["x-problems"]).map(readProblem),
  };
}

function readOperation(method: string, path: string, operation: Part): Operation {
  const responses = partOf(operation["responses"]);
  const good = Object.entries(responses).find(([status]) => status.startsWith("2"))?.[1];
  return {
    id: `${method}-${path.replace(/[^\w]+/gu, "-")}`,
    method: method.toUpperCase(),
    path,
    summary: textOf(operation["summary"]),
    description: textOf(operation["description"]),
    parameters: listOf(operation["parameters"]).map(readParameter),
    body: fieldsOf(contentSchema(operation["requestBody"])),
    response: fieldsOf(contentSchema(good)),
    statuses: Object.keys(responses),
  };
}

function readParameter(value: unknown): ApiField {
  const part = partOf(value);
  return {
    name: textOf(part["name"]),
    type: typeOf(partOf(part["schema"])),
    isRequired: part["required"] === true,
    description: textOf(part["description"]) || textOf(partOf(part["schema"])["description"]),
  };
}

function contentSchema(value: unknown): Part {
  const content = partOf(partOf(value)["content"]);
  return partOf(partOf(content["application/json"])["schema"]);
}

function fieldsOf(schema: Part): readonly ApiField[] {
  const required = new Set(listOf(schema["required"]));
  return Object.entries(partOf(schema["properties"])).map(([name, value]) => {
    const field = partOf(value);
    return {
      name,
      type: typeOf(field),
      isRequired: required.has(name),
      description: textOf(field["description"]),
    };
  });
}

function typeOf(schema: Part): string {
  const choices = listOf(schema["enum"]);
  if (choices.length > 0) return choices.map(String).join(" | ");
  const kinds = listOf(schema["anyOf"]).map((one) => typeOf(partOf(one)));
  if (kinds.length > 0) return [...new Set(kinds)].filter(Boolean).join(" | ");
  const type = textOf(schema["type"]);
  if (type !== "array") return type;
  return `list of ${typeOf(partOf(schema["items"])) || "values"}`;
}

function readProblem(value: unknown): Problem {
  const { code, status, title } = partOf(value);
  return { code: textOf(code), status: Number(status), title: textOf(title) };
}

/** A command for the operation. Placeholders stay, for people to replace. */
export function curlOf({ method, path, body }: Operation, serviceUrl: string): string {
  const url = `${serviceUrl.replace(/\/$/u, "")}${path}`;
  const required = body.filter(({ isRequired }) => isRequired);
  if (method === "GET") return `curl '${url}'`;
  if (body.length === 0) return `curl -X ${method} '${url}'`;
  const fields = required.map(({ name }) => `"${name}": …`).join(", ");
  const verb = method === "POST" ? "" : `-X ${method} `;
  return `curl ${verb}--json '{ ${fields} }' '${url}'`;
}

/** Operations whose path, summary or tag contains the text. */
export function searched(docs: ApiDocs, text: string): ApiDocs["groups"] {
  const wanted = text.toLowerCase();
  return docs.groups
    .map(({ tag, operations }) => ({
      tag,
      operations: operations.filter(({ method, path, summary }) =>
        `${method} ${path} ${summary} ${tag}`.toLowerCase().includes(wanted),
      ),
    }))
    .filter(({ operations }) => operations.length > 0);
}

function partOf(value: unknown): Part {
  return isObject(value) ? value : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
