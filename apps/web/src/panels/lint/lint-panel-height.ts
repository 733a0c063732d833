/** Lint panel height: the height of the panel on a phone, reserved before the panel loads. */

/** The same value as in `lint.css`. */
export const LINT_PANEL_HEIGHT = "11rem";
