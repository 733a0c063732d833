/**
 * Client: the API of the service that serves this page, its types, and who is signed in. The browser
 * adds the cookie of the session. A 401 response opens the sign-in form.
 */
import { signal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { type Client, createClient, type ServiceEvent } from "@redrive/service/client";

type Result<Name extends keyof Client> = Awaited<ReturnType<Client[Name]>>;

export type TaskView = Result<"getTask">;
export type TaskList = Result<"listTasks">;
export type TaskQuery = NonNullable<Parameters<Client["listTasks"]>[0]>;
export type AttemptView = Result<"listAttempts">["attempts"][number];
export type DestinationView = Result<"getDestination">;
export type DestinationHistory = Result<"destinationHistory">;
export type LimitChange = DestinationHistory["limits"][number];
export type Activity = Result<"activity">;
type DeadLetterGroups = Result<"groupDeadLetters">;
export type DeadLetterGroup = DeadLetterGroups["groups"][number];
export type RedriveView = Result<"getRedrive">;
export type RedriveToStart = Parameters<Client["startRedrive"]>[0];
export type ManyResult = Result<"cancelTasks">;
export type PolicyView = Result<"getPolicy">;
export type KeyView = Result<"listKeys">["keys"][number];
export type AlertsView = Result<"alerts">;
export type SimulationView = Result<"simulate">;
export type SuggestedField = Parameters<Client["suggestValues"]>[0]["field"];
export type EventView = Extract<ServiceEvent, { readonly kind: "event" }>["event"];

/** Unit tests load this without a page. */
const PAGE_URL = typeof location === "undefined" ? "http://localhost/ui/" : location.href;

/** The pages are one level below the API: `/ui/tasks` and `/retry-tasks`. */
export const serviceUrl: string = new URL("..", PAGE_URL).href;

/** True if the service has refused a request because nobody is signed in. */
export const isSignedOut = signal(false);

/** The clock of the browser. Ages and countdowns are as right as it is. */
export function now(): number {
  return systemClock.now();
}

async function guardedFetch(...args: Parameters<typeof fetch>): Promise<Response> {
  const response = await fetch(...args);
  if (response.status === 401) isSignedOut.value = true;
  return response;
}

export const client: Client = createClient({
  url: serviceUrl,
  fetch: guardedFetch,
  // The pages show an outage, and read again by themselves.
  retry: false,
});

/** What went wrong, as a sentence for the page. */
export function problemOf(error: unknown): string {
  const { message, name, code } = error as Error & { readonly code?: string };
  // `fetch` rejects with a TypeError if there is no response.
  if (name === "TypeError") return "The service does not respond. Retrying.";
  return code === undefined ? message : `${message} (${code})`;
}

/** A command that creates a task here, for a shell. */
export function createCommand(fields = '"json": { "order": 17 }'): string {
  return `curl --json '{ "targetUrl": "https://example.com/hook", ${fields} }' ${serviceUrl}retry-tasks`;
}

// Session: who is signed in, and what that key may do.

interface Session {
  readonly tenantId: string;
  readonly scopes: readonly string[];
  /** True if the service requires a key, so that signing out makes sense. */
  readonly hasCookie: boolean;
}

export const session = signal<Session | undefined>(undefined);

/** Whether the caller may do what requires this scope. */
export function may(scope: string): boolean {
  const scopes = session.value?.scopes ?? [];
  return scopes.includes(scope) || scopes.includes("admin");
}

const ADDRESS = new URL("ui/session", serviceUrl).href;

/** Reads who is signed in. Returns what went wrong, or "". */
export async function loadSession(): Promise<string> {
  try {
    const response = await fetch(ADDRESS);
    if (response.status === 401) {
      isSignedOut.value = true;
      return "";
    }
    return await accept(response);
  } catch {
    return "The service does not respond.";
  }
}

/** Exchanges the key for a cookie. Returns what went wrong, or "". */
export async function signIn(key: string): Promise<string> {
  const headers = { "content-type": "application/json" };
  try {
    const body = JSON.stringify({ key });
    return await accept(await fetch(ADDRESS, { method: "POST", headers, body }));
  } catch {
    return "The service does not respond.";
  }
}

export async function signOut(): Promise<void> {
  await fetch(ADDRESS, { method: "DELETE" });
  session.value = undefined;
  isSignedOut.value = true;
}

interface SessionAnswer {
  readonly tenantId: string;
  readonly scopes: readonly string[];
  readonly requiresKey: boolean;
  readonly detail?: string;
}

async function accept(response: Response): Promise<string> {
  const answer = (await response.json()) as SessionAnswer;
  if (!response.ok) return answer.detail ?? `The service returned ${response.status}.`;
  const { tenantId, scopes, requiresKey } = answer;
  session.value = { tenantId, scopes, hasCookie: requiresKey };
  isSignedOut.value = false;
  return "";
}
