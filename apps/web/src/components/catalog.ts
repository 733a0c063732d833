/** Catalog: the policies of other libraries, in its own module so that it loads after the page. */

export { catalog, catalogEntry } from "@redrive/core/interop";
