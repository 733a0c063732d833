/**
 * Document kinds: how the documents of policies and of destinations are checked and compared. A draft
 * is one that the user edits, or one in the address that the user wants to apply.
 */
import {
  DocumentError,
  isObject,
  type PolicyDocument,
  resolveDestination,
  resolvePolicy,
} from "@redrive/core";
import { guardFields, SERVICE_GUARDS, serviceGuards } from "@redrive/service/client";
import type { LintSubject } from "@redrive/simulator";
import type { Query } from "./link.tsx";

export type Document = Readonly<Record<string, unknown>>;

export interface DocumentKind {
  /** All fields with their defaults, for a comparison. Throws if core refuses the document. */
  resolve(document: Document): Document;
  lintSubject(document: Document): LintSubject;
  /** The document after a fix of the lint subject. */
  withFix(document: Document, fixed: LintSubject): Document;
}

export const policyKind: DocumentKind = {
  resolve: (document) => {
    const { policyId, description } = document;
    const names = { ...(policyId !== undefined && { policyId }), description };
    return { ...names, ...resolvePolicy(document as PolicyDocument) };
  },
  lintSubject: (document) => document as PolicyDocument,
  withFix: (_, fixed) => fixed as Document,
};

export const destinationKind: DocumentKind = {
  resolve: (document) => {
    const guards = guardFields(document);
    const delivery = Object.entries(document).filter(([name]) => !(name in guards));
    const { policy, ...others } = resolveDestination(guards, "service");
    return { ...Object.fromEntries(delivery), ...others, policy };
  },
  lintSubject: serviceGuards,
  withFix(document, fixed) {
    const entries = Object.entries(fixed as Document).filter(
      ([name, value]) => name in document || !isSame(value, (SERVICE_GUARDS as Document)[name]),
    );
    return { ...document, ...Object.fromEntries(entries) };
  },
};

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** A text that is being edited: a document, or what is wrong with it. */
type Draft =
  | { readonly document: Document; readonly resolved: Document }
  | { readonly problems: readonly string[] };

export function readDraft(kind: DocumentKind, text: string): Draft {
  try {
    const document: unknown = JSON.parse(text);
    if (!isObject(document) || Array.isArray(document)) {
      return { problems: ["The document must be a JSON object."] };
    }
    return { document, resolved: kind.resolve(document) };
  } catch (error) {
    if (error instanceof DocumentError) {
      return { problems: error.problems.map(({ message }) => message) };
    }
    const { name, message } = error as Error;
    return { problems: [name === "SyntaxError" ? `This is not JSON: ${message}` : message] };
  }
}

/** Longer addresses are not opened by every browser and proxy. */
const MAX_CHARACTERS = 30_000;

/** The draft in the address. Undefined: there is none, or it is damaged. */
export function readDraftOf(query: Query): Document | undefined {
  const text = query["draft"];
  if (text === undefined || text.length > MAX_CHARACTERS) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
