/** Pages: the names under /ui/ that answer with the app; the builder writes a file for each. */

/** `simulator` now; the dashboard's pages are added here. */
export const pageNames = ["simulator"] as const;
