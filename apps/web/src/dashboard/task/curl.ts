/** Curl: the request of a task as a command that a shell passes on unchanged. */
import type { TaskView } from "../service/client.ts";

type Request = Pick<
  TaskView,
  "method" | "targetUrl" | "headers" | "body" | "bodyBase64" | "bodyRef"
>;

/**
 * Masked header values stay masked: the page does not know them. A body in the blob store is read from
 * the file `body`, which the user downloads.
 */
export function curlCommand(request: Request): string {
  const { method, targetUrl, headers, body, bodyBase64, bodyRef } = request;
  // A command line cannot contain a NUL character.
  const isText = body !== undefined && !body.includes("\0");
  const parts = [
    // Without globbing, curl does not expand [1-9] and {a,b} in the URL.
    `curl --globoff ${method === "HEAD" ? "--head" : `--request ${method}`}`,
    ...Object.entries(headers).map(([name, value]) => `--header ${quoted(`${name}: ${value}`)}`),
  ];
  if (bodyRef !== null) parts.push("--data-binary @body");
  if (isText) parts.push(`--data-raw ${quoted(body)}`);
  const encoded = isText ? undefined : (bodyBase64 ?? encodedText(body));
  if (encoded !== undefined) parts.push("--data-binary @-");
  const command = [...parts, quoted(targetUrl)].join(" \\\n  ");
  return encoded === undefined ? command : `echo ${quoted(encoded)} | base64 -d | ${command}`;
}

function encodedText(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  return btoa(String.fromCodePoint(...new TextEncoder().encode(text)));
}

/** In single quotes a shell changes nothing; a single quote itself ends them. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
