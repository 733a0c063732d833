/** Refused URL: the error for a URL of a document that the operator does not allow, or that is malformed. */
import { DocumentError } from "@redrive/core";
import type { RefusedTarget } from "../../deliver/address-guard/target.ts";
import { serviceError } from "../../model/errors.ts";

/** What messages call the URL of each field. */
const URL_NOUNS = {
  targetUrl: "target",
  callbackUrl: "callback",
  deadLetterUrl: "dead letter target",
} as const;

type UrlField = keyof typeof URL_NOUNS;

export function refusal({ kind, message }: RefusedTarget, field: UrlField): Error {
  const text = message.replace(/^(target(Url)?)\b/, (word) =>
    word === "target" ? URL_NOUNS[field] : field,
  );
  return kind === "denied"
    ? serviceError("TARGET_DENIED", text)
    : new DocumentError("INVALID_ARGUMENT", [{ field, value: undefined, message: text }]);
}
