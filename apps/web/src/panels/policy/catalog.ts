/** The catalogue of what others do, apart so that it is loaded after the page stands. */
export { catalog, catalogEntry } from "@redrive/core/interop";
