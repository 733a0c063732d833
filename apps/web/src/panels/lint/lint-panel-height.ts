/** Lint room: how high the lint panel is on a phone, for who keeps its place before it is loaded. */

/** As in `lint/lint.css`. */
export const LINT_PANEL_HEIGHT = "11rem";
