/** Store name: the text of a store without its user and password, for logs and messages. */

/** Parameters may contain a password too. A path of SQLite has none of these. */
const CREDENTIALS = /^(?!sqlite:)([a-z+]+:(?:\/\/)?)(?:[^/?#]*@)?([^?#]*).*$/isu;

export function storeName(store: string): string {
  return store.replace(CREDENTIALS, "$1$2");
}
