/** Clipboard: takes a text, where the browser lets pages at it. */

/** False where the clipboard is closed to pages. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
