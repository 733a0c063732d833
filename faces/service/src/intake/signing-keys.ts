/**
 * Signing keys: decrypts the signing secrets of a destination, once for each version of its document.
 */
import { parseSigningSecret, type SigningKey } from "../deliver/signing.ts";
import type { DeliverySettings } from "../model/delivery/delivery-settings.ts";
import type { NewTask } from "../model/task.ts";
import { type Secrets, signingContext } from "./secrets.ts";

/** Null: a secret cannot be decrypted, so nothing may be sent. */
export type SigningKeysOf = (
  task: Pick<NewTask, "tenantId" | "destination">,
  settings: DeliverySettings,
) => readonly SigningKey[] | null;

export function signingKeys(secrets: Secrets): SigningKeysOf {
  const opened = new WeakMap<DeliverySettings, readonly SigningKey[] | null>();
  return ({ tenantId, destination }, settings) => {
    if (settings.signingSecrets.length === 0) return NO_KEYS;
    const known = opened.get(settings);
    if (known !== undefined) return known;
    const keys = openAll(secrets, settings.signingSecrets, signingContext(tenantId, destination));
    opened.set(settings, keys);
    return keys;
  };
}

const NO_KEYS: readonly SigningKey[] = [];

function openAll(
  secrets: Secrets,
  sealed: readonly string[],
  context: string,
): readonly SigningKey[] | null {
  const texts = sealed.map((one) => secrets.openText(one, context));
  return texts.every((text) => text !== null) ? texts.map(parseSigningSecret) : null;
}
