/** Store name: the text of a store without its user and password, for logs and messages. */

/** Parameters may contain a password too. A path of SQLite has none of these. */
const CREDENTIALS = /^(?!sqlite:)([a-z+]+:(?:\/\/)?)(?:[^/?#]*@)?([^?#]*).*$/isu;

/** A URL may have commas itself, so only a comma before a scheme separates. */
const SEPARATOR = /,(?=[a-z+]+:\/\/|sqlite:|memory:)/u;

/** The name of a store; of a sharded store, the names of its shards. */
export function storeName(store: string): string {
  const nameOf = (text: string) => text.replace(CREDENTIALS, "$1$2");
  return splitStores(store).map(nameOf).join();
}

/** The texts of the shards of a store on servers. */
export function splitStores(text: string): readonly string[] {
  return /^sqlite:/iu.test(text) ? [text] : text.split(SEPARATOR);
}
