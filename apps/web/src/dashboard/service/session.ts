/** Session: who is signed in, and what that key may do. */
import { signal } from "@preact/signals";
import { isSignedOut, serviceUrl } from "./client.ts";

export interface Session {
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
