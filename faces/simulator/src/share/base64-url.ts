/** Base64url (RFC 4648, section 5) of a text in UTF-8, with what browsers and Node both have. */

/** What every host of the simulator has, though its types are those of no host. */
interface Globals {
  btoa(binary: string): string;
  atob(encoded: string): string;
  readonly TextEncoder: new () => { encode(text: string): Uint8Array };
  readonly TextDecoder: new (
    label: string,
    options: { readonly fatal: boolean },
  ) => { decode(bytes: Uint8Array): string };
}

const globals = globalThis as unknown as Globals;

export function toBase64Url(text: string): string {
  const bytes = new globals.TextEncoder().encode(text);
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return globals.btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Throws for a text that is none. */
export function fromBase64Url(encoded: string): string {
  const binary = globals.atob(encoded.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  return new globals.TextDecoder("utf-8", { fatal: true }).decode(bytes);
}
