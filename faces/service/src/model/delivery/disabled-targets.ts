/**
 * Disabled targets: changes the list of disabled target URLs in the stored document of a destination.
 * The list is part of the row that every claim compares, so it holds for all nodes at once.
 */
import { isObject } from "@redrive/core";
import { disabledIn, withDisabled } from "./delivery-settings.ts";

type Fieldset = Readonly<Record<string, unknown>>;

/** The document after this URL responded 410. A URL that is disabled already keeps its instant. */
export function disableIn(text: string | null, targetUrl: string, disabledAt: number): string {
  const document = parse(text);
  const targets = disabledIn(document);
  const isKnown = targets.some((target) => target.targetUrl === targetUrl);
  return JSON.stringify(
    isKnown ? document : withDisabled(document, [...targets, { targetUrl, disabledAt }]),
  );
}

/** The document after a person enabled this URL again. */
export function enableIn(text: string | null, targetUrl: string): string {
  const document = parse(text);
  const targets = disabledIn(document).filter((target) => target.targetUrl !== targetUrl);
  return JSON.stringify(withDisabled(document, targets));
}

function parse(text: string | null): Fieldset {
  const stored: unknown = text === null ? {} : JSON.parse(text);
  return isObject(stored) ? stored : {};
}
