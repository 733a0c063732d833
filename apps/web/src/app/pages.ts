/** Pages: the names under /ui/ that serve the app. The build writes one HTML file for each. */

/** Only `simulator` so far; the pages of the dashboard go here. */
export const pageNames = ["simulator"] as const;
