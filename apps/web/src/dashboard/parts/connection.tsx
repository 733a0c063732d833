/** Connection: whether the page is live, a button that pauses it, the keys, and signing out. */
import { isKeysDialogOpen } from "../keys/keys.ts";
import { isSignedOut } from "../service/client.ts";
import { liveState, togglePause } from "../service/live.ts";
import { session, signOut } from "../service/session.ts";

const STATES = {
  live: { tone: "good", text: "live", action: "Pause live updates" },
  connecting: { tone: "warn", text: "connecting", action: "Pause live updates" },
  hidden: { tone: "plain", text: "paused", action: "Pause live updates" },
  paused: { tone: "plain", text: "paused", action: "Resume live updates" },
} as const;

export function Connection() {
  const { tone, text, action } = STATES[liveState.value];
  if (isSignedOut.value) return null;
  return (
    <div class="connection">
      <button type="button" class={`status ${tone} live`} title={action} onClick={togglePause}>
        <span role="status">{text}</span>
        <span class="visually-hidden">: {action}</span>
      </button>
      <button
        type="button"
        class="button quiet keys-button"
        aria-haspopup="dialog"
        onClick={() => {
          isKeysDialogOpen.value = true;
        }}
      >
        Shortcuts <kbd>?</kbd>
      </button>
      {session.value?.hasCookie === true && (
        <button type="button" class="button quiet" onClick={() => void signOut()}>
          Sign out
        </button>
      )}
    </div>
  );
}
